// Pieces of SQL that are made of the names that the program has for columns.

/**
 * An insertion of a value for each of these columns, bound by the same names.
 * @param computed expressions for further columns
 */
export function insertInto(
  table: string,
  names: readonly string[],
  computed: Readonly<Record<string, string>> = {},
): string {
  const columns = [...Object.keys(computed), ...names].map(columnOf);
  const values = [...Object.values(computed), ...names.map((name) => `:${name}`)];
  return `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${values.join(', ')})`;
}

/** Assignments to these columns, bound by the same names: `url = :url, updated_at = :updatedAt`. */
export function assignments(names: readonly string[]): string {
  return names.map((name) => `${columnOf(name)} = :${name}`).join(', ');
}

/** The column of a name of the program: `created_at` of `createdAt`. */
export function columnOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
