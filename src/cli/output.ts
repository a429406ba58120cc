/** Prints data for a program, with `--json`, or for a person. */
export function print(data: unknown, { json }: { json?: boolean }, forPeople: () => string): void {
  console.log(json === true ? JSON.stringify(data) : forPeople());
}

/** Rows in columns of equal width, under their names. */
export function table(rows: readonly Record<string, unknown>[], columns: readonly string[]): string {
  const cells = [columns, ...rows.map((row) => columns.map((column) => cell(row[column])))];
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => row[index]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((text, index) => text.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-';
  return Array.isArray(value) ? value.join(' ') : String(value);
}
