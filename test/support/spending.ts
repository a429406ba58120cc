import type { Client } from './client.ts';

/** Sends so many requests at once. @returns how many were let in; those that got no answer are not among them */
export async function spend(client: Client, count: number): Promise<number> {
  const answers = await Promise.allSettled(Array.from({ length: count }, () => client.rest('GET', '/account')));
  return answers.filter((answer) => answer.status === 'fulfilled' && answer.value.status === 200).length;
}

/** Sends until requests are refused. @returns how many were let in */
export async function spendAll(client: Client): Promise<number> {
  for (let total = 0; ; ) {
    const admitted = await spend(client, 50);
    total += admitted;
    if (admitted < 50) return total;
  }
}
