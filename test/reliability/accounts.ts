import { createAccount } from '../../src/domain/accounts.ts';
import { portsOn } from '../bench/data.ts';
import type { EmptyDatabase } from './databases.ts';

/** Makes accounts whose limits no test comes near. @returns their keys */
export async function accountsIn(database: EmptyDatabase, count: number): Promise<string[]> {
  const storage = await database.open();
  try {
    const secrets: string[] = [];
    for (let index = 0; index < count; index++) {
      const input = { name: `account-${index}`, plan: 'business', requestsPerHour: 100_000_000 } as const;
      secrets.push((await createAccount(portsOn(storage), input)).apiKey.secret);
    }
    return secrets;
  } finally {
    await storage.close();
  }
}
