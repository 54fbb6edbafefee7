// The page of a model: what draws each kind of its sections.

import { drawAnswer, drawNote } from "./answer.js";
import { drawAttention } from "./attention.js";
import { drawCases } from "./cases.js";
import { drawCalibration, drawThresholds } from "./decided.js";
import { drawDistances, drawFading } from "./fading.js";
import { drawBlanks, drawNext, drawPair } from "./guesses.js";
import { drawLabels } from "./labels.js";
import { drawLive } from "./live.js";
import { drawMetrics } from "./metrics.js";
import { drawMovement } from "./movement.js";
import { drawPage } from "./page.js";
import { drawPoints } from "./points.js";
import { drawPrinted } from "./printed.js";
import { drawProjector } from "./projector.js";
import { drawResiduals } from "./scatter.js";
import { drawSheets } from "./sheets.js";
import { drawBackoff, drawMix, drawPositions } from "./small.js";
import { drawSteps } from "./steps.js";
import { drawCommand, drawTables } from "./tables.js";
import { drawTranslation } from "./translation.js";
import { drawWorked } from "./worked.js";

const KINDS = {
  ablation: drawAnswer,
  attention: drawAttention,
  backoff: drawBackoff,
  blanks: drawBlanks,
  calibration: drawCalibration,
  cases: drawCases,
  command: drawCommand,
  distances: drawDistances,
  fading: drawFading,
  labels: drawLabels,
  live: drawLive,
  metrics: drawMetrics,
  mix: drawMix,
  movement: drawMovement,
  next: drawNext,
  note: drawNote,
  pair: drawPair,
  points: drawPoints,
  positions: drawPositions,
  printed: drawPrinted,
  projector: drawProjector,
  residuals: drawResiduals,
  sheets: drawSheets,
  steps: drawSteps,
  tables: drawTables,
  thresholds: drawThresholds,
  translation: drawTranslation,
  worked: drawWorked,
};

drawPage(KINDS);
