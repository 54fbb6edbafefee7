// The page of training runs.

import { drawCurves } from "./curves.js";
import { drawPage } from "./page.js";

drawPage({ curves: drawCurves });
