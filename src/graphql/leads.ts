import { idempotencyKeyDescription } from '../domain/idempotency.ts';
import {
  type CapturedLead,
  captureLead,
  getLead,
  type Lead as LeadShape,
  leadShape,
  listLeads,
} from '../domain/leads.ts';
import { newestFirstCursor } from '../domain/paging.ts';
import { addMutation, answering, builder, calls, fieldsOf, payloadType } from './builder.ts';
import { connectionOf, connectionType, edgeField, listInput, pageArgs } from './connection.ts';
import { Conversation } from './conversations.ts';
import { Node } from './node.ts';

export const Lead = builder.objectRef<LeadShape>('Lead').implement({
  description: 'Contact details left by a visitor. A lead never changes.',
  interfaces: [Node],
  fields: (t) => ({
    ...fieldsOf(t, leadShape, {
      conversationId: 'ID',
      name: 'String',
      email: 'String',
      phone: 'String',
      company: 'String',
      metadata: 'Metadata',
      createdAt: 'DateTime',
    }),
    conversation: t.field({
      type: Conversation,
      nullable: true,
      description:
        'The current state of the conversation in which it was captured. Needs the scope `conversations:read`.',
      resolve: ({ conversationId }, _, { loaders }) =>
        conversationId === null ? null : loaders.conversation.load(conversationId),
    }),
  }),
});

const { Connection: LeadConnection, Edge: LeadEdge } = connectionType('Lead', Lead);

builder.queryFields((t) => ({
  leads: t.field({
    type: LeadConnection,
    ...answering(listLeads),
    args: {
      ...pageArgs,
      conversationId: t.arg.id({ description: 'Only leads captured in this conversation.' }),
      email: t.arg.string({ description: 'Only leads with this email address, in upper or lower case.' }),
      createdAfter: t.arg({ type: 'DateTime', description: 'Only leads captured after this time.' }),
      createdBefore: t.arg({ type: 'DateTime', description: 'Only leads captured before this time.' }),
    },
    resolve: (_, args, context, info) => connectionOf(context, listLeads, info, listInput(args)),
  }),
  lead: t.field({
    type: Lead,
    nullable: true,
    description: 'Returns a lead; null with `NOT_FOUND` if there is none with this id.',
    extensions: calls(getLead),
    args: { id: t.arg.id({ required: true, description: 'The id of the lead.' }) },
    resolve: (_, { id }, context) => context.call(getLead, { id }),
  }),
}));

const CaptureLeadInput = builder.inputType('CaptureLeadInput', {
  description: 'A lead: an email address or a phone number, and further details.',
  fields: (t) => ({
    conversationId: t.id({ description: 'The conversation in which it was captured.' }),
    name: t.string({ description: 'The visitor’s name: at most 200 characters.' }),
    email: t.string({
      description: 'An email address, at most 320 characters; this or a phone number is required.',
    }),
    phone: t.string({ description: 'A phone number, at most 64 characters; this or an email address is required.' }),
    company: t.string({ description: 'The visitor’s company: at most 200 characters.' }),
    metadata: t.field({
      type: 'Metadata',
      description: 'Arbitrary client data: a flat object of at most 50 keys and 8 KiB.',
    }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const CaptureLeadPayload = payloadType<CapturedLead>('captureLead', (t) => ({
  lead: t.expose('lead', { type: Lead, description: 'The lead as stored.' }),
  leadEdge: edgeField(t, LeadEdge, 'leads', ({ lead }) => ({ node: lead, cursor: newestFirstCursor(lead) })),
}));

addMutation(captureLead, CaptureLeadPayload, CaptureLeadInput, 'The lead to capture.');
