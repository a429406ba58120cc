import { describe } from 'vitest';
import { accountsContract } from './contract/accounts.ts';
import { analyticsContract } from './contract/analytics.ts';
import { conversationsContract } from './contract/conversations.ts';
import { documentsContract } from './contract/documents.ts';
import { erasureContract } from './contract/erasure.ts';
import { eventsContract } from './contract/events.ts';
import { isolationContract } from './contract/isolation.ts';
import type { OpenedStorage } from './contract/opened.ts';
import { readPositionsContract } from './contract/read-positions.ts';
import { searchContract } from './contract/search.ts';
import { transactionsContract } from './contract/transactions.ts';
import { webhooksContract } from './contract/webhooks.ts';

/** What every implementation of the port `Storage` promises, whatever it keeps things in. */
export function storageContract(name: string, open: () => Promise<OpenedStorage>): void {
  describe(`storage in ${name}`, () => {
    transactionsContract(open);
    accountsContract(open);
    conversationsContract(open);
    eventsContract(open);
    analyticsContract(open);
    webhooksContract(open);
    readPositionsContract(open);
    documentsContract(open);
    searchContract(open);
    erasureContract(open);
    isolationContract(open);
  });
}
