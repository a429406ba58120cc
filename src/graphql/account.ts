import { accountShape, getAccount } from '../domain/accounts.ts';
import { descriptionOf, fieldIn } from '../domain/descriptions.ts';
import { answeredFirst, answering, builder, fieldsOf, type ResultOf } from './builder.ts';
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

const RateLimit = builder.objectRef<AccountShape['rateLimit']>('RateLimit').implement({
  description: descriptionOf(accountShape.shape.rateLimit),
  fields: (t) => fieldsOf(t, accountShape.shape.rateLimit, { limit: 'Int', remaining: 'Int', resetAt: 'DateTime' }),
});

const Account = builder.objectRef<AccountShape>('Account').implement({
  description: 'The account that the credential belongs to.',
  interfaces: [Node],
  fields: (t) => ({
    ...fieldsOf(t, accountShape, { name: 'String', plan: Plan, rateLimit: RateLimit, createdAt: 'DateTime' }),
    eventCursor: t.exposeString('eventCursor', { ...fieldIn(accountShape, 'eventCursor'), extensions: answeredFirst }),
  }),
});

builder.queryField('account', (t) =>
  t.field({
    type: Account,
    ...answering(getAccount),
    resolve: (_, _args, context) => context.call(getAccount, {}),
  }),
);
