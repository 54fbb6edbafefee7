// Tables of numbers as shades, one below the other.

import { readArray } from "./data.js";
import { heatFigure } from "./heat.js";

// Draw the section.
export async function drawSheets({ sheets }, host) {
  for (const [number, sheet] of sheets.entries()) {
    const numbers = await readArray(sheet.numbers);
    const given = {
      rows: sheet.rows,
      columns: sheet.columns,
      largest: sheet.largest,
      narrowest: 1, // all columns are seen at once
      value: (row, column) => numbers.get(row, column),
      print: (value) => numbers.print(value),
    };
    const drawn = heatFigure(sheet.title, sheet.note, given, `sheet-${number + 1}`);
    host.append(drawn.element);
  }
}
