import { accountShape, getAccount } from '../domain/accounts.ts';
import { descriptionOf, descriptionsOf } from '../domain/descriptions.ts';
import { builder, calls, type ResultOf } from './builder.ts';
import { Node } from './node.ts';

type AccountShape = ResultOf<typeof getAccount>;

const Plan = builder.enumType('Plan', {
  description: 'The plan of an account, which sets its request limit.',
  values: {
    TRIAL: { value: 'trial', description: '100 requests in any 60 minutes.' },
    PRO: { value: 'pro', description: '1,000 requests in any 60 minutes.' },
    BUSINESS: { value: 'business', description: '10,000 requests in any 60 minutes.' },
  } as const,
});

const described = descriptionsOf(accountShape);
const limitDescriptions = descriptionsOf(accountShape.shape.rateLimit);

const RateLimit = builder.objectRef<AccountShape['rateLimit']>('RateLimit').implement({
  description: descriptionOf(accountShape.shape.rateLimit),
  fields: (t) => ({
    limit: t.exposeInt('limit', { description: limitDescriptions.limit }),
    remaining: t.exposeInt('remaining', { description: limitDescriptions.remaining }),
    resetAt: t.expose('resetAt', { type: 'DateTime', description: limitDescriptions.resetAt }),
  }),
});

const Account = builder.objectRef<AccountShape>('Account').implement({
  description: 'The account that the credential belongs to.',
  interfaces: [Node],
  fields: (t) => ({
    name: t.exposeString('name', { description: described.name }),
    plan: t.expose('plan', { type: Plan, description: described.plan }),
    rateLimit: t.expose('rateLimit', { type: RateLimit, description: described.rateLimit }),
    eventCursor: t.exposeString('eventCursor', { description: described.eventCursor }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: described.createdAt }),
  }),
});

builder.queryField('account', (t) =>
  t.field({
    type: Account,
    nullable: true,
    description: getAccount.summary,
    extensions: calls(getAccount),
    resolve: (_, _args, context) => context.call(getAccount, {}),
  }),
);
