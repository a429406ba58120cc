import { startTestServer } from '../support/server.ts';

/** Makes a database with accounts whose limits no test comes near. @returns their keys */
export async function accountsIn(databasePath: string, count: number): Promise<string[]> {
  const server = await startTestServer({ databasePath });
  try {
    const accounts = await Promise.all(
      Array.from({ length: count }, () => server.account({ requestsPerHour: 100_000_000 })),
    );
    return accounts.map(({ secret }) => secret);
  } finally {
    await server.close();
  }
}
