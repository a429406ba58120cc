import * as z from 'zod';
import { countLead } from './analytics-delta.ts';
import { shownTo } from './caller.ts';
import { conversationView, findConversation, momentAfter, type StoredConversation } from './conversation-record.ts';
import { DomainError, notFound } from './errors.ts';
import { cursorFormOf } from './event-cursor.ts';
import { appendEvents, type NewEvent } from './events.ts';
import { exampleId, idInput, idShape } from './ids.ts';
import { metadataInput, metadataShape } from './metadata.ts';
import { type Context, evenWithOtherFaults, type Moment, operation } from './operation.ts';
import { checkStart, type List, newestFirst, type PageQuery, pageInput } from './paging.ts';
import { nullableText } from './shapes.ts';
import { comparableEmail, line } from './text.ts';
import { timeInput, timeInputRoundedUp, timeShape, timestamp } from './time.ts';

export const leadShape = z
  .object({
    id: idShape('lead').describe('Its id.'),
    conversationId: idShape('conversation').nullable().describe('The conversation in which it was captured, if any.'),
    name: nullableText('The visitor’s name.', 'Ada'),
    email: nullableText('An email address; a lead has this, `phone` or both.', 'ada@example.com'),
    phone: nullableText('A phone number; a lead has this, `email` or both.', null),
    company: nullableText('The visitor’s company.', 'Analytical Engines'),
    metadata: metadataShape,
    createdAt: timeShape.describe('When it was captured.'),
  })
  .meta({ id: 'Lead', description: 'Contact details left by a visitor. A lead never changes.' });

export type Lead = Readonly<z.output<typeof leadShape>>;

export interface CapturedLead {
  readonly lead: Lead;
  /** The end of the event log after the capture. */
  readonly eventCursor: string;
}

/** A blank contact would be of no use. */
function contact(max: number) {
  return line(max).regex(/\S/, { error: 'must not be empty or only white space' });
}

/** The JSON schema of an object in which a text is given. */
function given(name: string, description: string) {
  return { properties: { [name]: { type: 'string', description } }, required: [name] };
}

export const captureLead = operation({
  name: 'captureLead',
  summary: 'Captures a lead: contact details left by a visitor.',
  scope: 'leads:write',
  openToBound: 'visitor',
  input: z
    .strictObject({
      conversationId: idInput('conversation')
        .nullable()
        .default(null)
        .describe('The conversation in which it was captured.'),
      name: line(200)
        .nullable()
        .default(null)
        .describe('The visitor’s name.')
        .meta({ examples: ['Ada'] }),
      email: contact(320)
        .nullable()
        .default(null)
        .describe('An email address; this or a phone number is required.')
        .meta({ examples: ['ada@example.com'] }),
      phone: contact(64).nullable().default(null).describe('A phone number; this or an email address is required.'),
      company: line(200).nullable().default(null).describe('The visitor’s company.'),
      metadata: metadataInput
        .default({})
        .describe('Arbitrary client data: a flat object of at most 50 keys and 8 KiB.'),
    })
    .refine(({ email, phone }) => email !== null || phone !== null, {
      path: ['email'],
      error: 'is required unless `phone` is given',
      ...evenWithOtherFaults,
    })
    // Within `allOf`, since generators of types take `anyOf` beside properties for further possibilities.
    .meta({ allOf: [{ anyOf: [given('email', 'An email address.'), given('phone', 'A phone number.')] }] }),
  errors: ['NOT_FOUND'],
  repeatable: { conversationIdOf: ({ lead }: CapturedLead) => lead.conversationId },
  async run(context, input): Promise<CapturedLead> {
    const { caller } = context;
    if (caller.visitor !== undefined && input.conversationId === null) {
      throw new DomainError('FORBIDDEN', 'This token captures leads only in a conversation of its visitor: name it.');
    }
    const accountId = caller.account.id;
    const { show } = await cursorFormOf(context);
    const about = input.conversationId === null ? [] : [input.conversationId];
    const captured = await context.once(async (tx) => {
      const conversation =
        input.conversationId === null ? null : await findConversation(tx, caller, input.conversationId);
      const moment = momentAfter(context, conversation);
      const lead = newLead(input, moment);
      await tx.leads.insert(accountId, lead);
      await countLead(tx, accountId, lead, conversation);
      const eventCursor = await appendEvents(tx, moment, [leadEvent(lead, conversation, moment)]);
      return { lead: shownTo(caller, lead), eventCursor };
    }, about);
    return { ...captured, eventCursor: show(captured.eventCursor) };
  },
});

type LeadInput = Omit<ReturnType<(typeof captureLead)['parse']>, 'idempotencyKey'>;

function newLead(input: LeadInput, { ids, now }: Moment): Lead {
  return {
    id: ids.next('lead', now),
    conversationId: input.conversationId,
    name: input.name,
    email: input.email,
    phone: input.phone,
    company: input.company,
    metadata: input.metadata,
    createdAt: timestamp(now),
  };
}

/** @param conversation the one in which it was captured, if any */
function leadEvent(lead: Lead, conversation: StoredConversation | null, { ids, now }: Moment): NewEvent {
  return {
    id: ids.next('event', now),
    type: 'lead.captured',
    timestamp: lead.createdAt,
    conversationId: lead.conversationId,
    visitorId: null, // no visitor reads of leads
    data: { lead, conversation: conversation && conversationView(conversation) },
  };
}

/** What a lead on a list has to be, all of it. */
export interface LeadFilter {
  readonly conversationId?: string | undefined;
  /** In the form of `comparableEmail`. */
  readonly email?: string | undefined;
  /** Epoch milliseconds, exclusive. */
  readonly createdAfter?: number | undefined;
  /** Epoch milliseconds, exclusive. */
  readonly createdBefore?: number | undefined;
}

export interface LeadQuery extends PageQuery {
  readonly filter: LeadFilter;
}

export const listLeads = operation({
  name: 'listLeads',
  summary: 'Lists the account’s leads, newest first.',
  scope: 'leads:read',
  input: z
    .strictObject({
      ...pageInput('-createdAt', [exampleId('lead')]),
      conversationId: idInput('conversation').optional().describe('Only leads captured in this conversation.'),
      email: line(320)
        .optional()
        .describe('Only leads with this email address, in upper or lower case.')
        .meta({ examples: ['ada@example.com'] }),
      createdAfter: timeInput.optional().describe('Only leads captured after this time.'),
      createdBefore: timeInputRoundedUp.optional().describe('Only leads captured before this time.'),
    })
    .check(checkStart({ '-createdAt': ['lead'] })),
  errors: [],
  run({ caller, storage }, { limit, offset, after, total, ...asked }): Promise<List<Lead>> {
    const { leads } = storage.read;
    const filter = { ...asked, email: asked.email && comparableEmail(asked.email) };
    const reads = {
      page: (accountId: string, query: PageQuery) => leads.page(accountId, { ...query, filter }),
      count: (accountId: string) => leads.count(accountId, filter),
    };
    return newestFirst('lead', reads, caller.account.id, { limit, offset, after, total });
  },
});

export const getLead = operation({
  name: 'getLead',
  summary: 'Returns a lead.',
  scope: 'leads:read',
  input: z.strictObject({ id: idInput('lead').describe('The lead’s id.') }),
  errors: ['NOT_FOUND'],
  async run({ caller, storage }, { id }): Promise<Lead> {
    const lead = await storage.read.leads.find(caller.account.id, id);
    if (lead === undefined) throw notFound('lead');
    return lead;
  },
});

/**
 * Like getLead for many ids at once; undefined for each unknown id.
 * @throws FORBIDDEN
 */
export async function leadsById(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ids: readonly string[],
): Promise<readonly (Lead | undefined)[]> {
  getLead.authorise(caller);
  return await storage.read.leads.findMany(caller.account.id, ids);
}
