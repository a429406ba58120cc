// What visitors, agents and bots of an invented shop write. Nobody here is real: the e-mail domains (RFC 2606) and the
// telephone numbers are reserved for examples. Names in braces stand for the facts below and for those of a conversation.

/** A subject that conversations are about. */
interface Topic {
  /** How often it comes up, relative to the others. */
  readonly weight: number;
  /** The tag that agents give it. */
  readonly tag: string;
  readonly subjects: readonly string[];
  /** The visitor's request. */
  readonly openings: readonly string[];
  /** The agent's first answer. */
  readonly answers: readonly string[];
  /** Follow-ups: a question of the visitor, and the agent's answer. */
  readonly exchanges: readonly (readonly [asked: string, answered: string])[];
}

export const topics: readonly Topic[] = [
  {
    weight: 24,
    tag: 'delivery',
    subjects: ['Where is my order {order}?', 'Delivery of order {order}', 'Parcel not here yet'],
    openings: [
      'Where is my order {order}? It was meant to be here on {day}.',
      'I ordered a {product} and have heard nothing since. The order is {order}.',
      'The tracking for order {order} has not moved for three days.',
      'Has order {order} left your warehouse yet?',
    ],
    answers: [
      'Let me look that up. Order {order} left us on {day} and is with {carrier} now.',
      'Thanks for the number, {visitor}. It is on its way and should be in {city} by tomorrow.',
      'I am sorry about the wait. {order} was held up in {city}; it is moving again.',
      'I have found it: the {product} was packed this morning and goes out today.',
    ],
    exchanges: [
      ['Do I have to be at home for it?', 'No, a neighbour can take it, or it goes to the nearest pick-up point.'],
      ['Can you send me the tracking link again?', 'Of course, it is in your inbox now.'],
      ['Could it still come before {day}?', 'It is likely, but {carrier} would have to keep that promise.'],
      [
        'The tracking says that it was delivered, and there is nothing here.',
        'That should not be. I have opened an enquiry with {carrier}; they answer within two days.',
      ],
      ['What if it does not turn up?', 'Then we send the {product} again, or you get your {amount} back.'],
    ],
  },
  {
    weight: 17,
    tag: 'return',
    subjects: ['Return of {product}', 'Sending back order {order}', 'Refund for {order}'],
    openings: [
      'I would like to send back the {product} from order {order}.',
      'How do I return something? The {product} is not quite what I had in mind.',
      'I sent the {product} back two weeks ago and have not got the {amount} yet.',
      'Is it still possible to return order {order}?',
    ],
    answers: [
      'No problem at all. You have 30 days, and the label is free. I have just sent it to you.',
      'Of course, {visitor}. Put the label that I have mailed you on the box and hand it to {carrier}.',
      'I can see the return of {order}. The {amount} went back to your card on {day}.',
    ],
    exchanges: [
      ['I no longer have the box that it came in.', 'Any sturdy box will do, as long as nothing can rattle about.'],
      ['How long does the refund take?', 'Two working days once it is here, and then whatever your bank takes.'],
      [
        'Could I have another colour instead?',
        'Yes, we have it in {colour}. I can send that as soon as yours is back.',
      ],
      ['Does it have to be unused?', 'You may try it as you would in a shop. A night in the woods is a little more.'],
      ['Can I bring it to the shop in {city}?', 'Yes, with the order number {order} they will take it right there.'],
    ],
  },
  {
    weight: 13,
    tag: 'products',
    subjects: ['Which size of {product}?', 'Question about the {product}', 'Is the {product} in stock?'],
    openings: [
      'I cannot decide between two sizes of the {product}. Does it run small?',
      'Is the {product} in {colour} going to be back in stock?',
      'How heavy is the {product}? I cannot find it on the page.',
      'What is the {product} made of, and can it be washed?',
    ],
    answers: [
      'Good question! Most people take their usual size, and one larger for winter.',
      'We expect the {product} in {colour} again on {day}. Shall I put one aside for you?',
      'I have just been to the shelf, {visitor}. We have three left here, and one in our shop in {city}.',
    ],
    exchanges: [
      ['And how does it hold up in the rain?', 'Very well. Mine has been on the balcony since last autumn.'],
      [
        'Do you have a photo of the {colour} one?',
        'I have just taken one at the window. It is warmer than on the page.',
      ],
      ['Where is it made?', 'In a family workshop near {city}. We have worked with them for eleven years.'],
      ['Does it come with a warranty?', 'Five years, and we repair it for longer than that.'],
      ['Would you recommend it as a present?', 'It is what I gave my brother. We can wrap it, too.'],
      ['Is there a cheaper one like it?', 'There is, from {amount}. It does the same and weighs more.'],
    ],
  },
  {
    weight: 9,
    tag: 'payment',
    subjects: ['Payment does not go through', 'Charged twice?', 'Problem at checkout'],
    openings: [
      'My card is refused at the checkout, and the bank says that all is well.',
      'I think that I was charged twice for order {order}.',
      'The code from your newsletter does not work.',
      'Can I pay by invoice?',
    ],
    answers: [
      'Sorry about that! The payment is only reserved and goes away by itself within three days.',
      'There was trouble with card payments this morning; could you try once more?',
      'I see the attempt over {amount}. Your bank wanted a confirmation in its app and did not get one.',
    ],
    exchanges: [
      ['It works now, thank you. Is my cart still there?', 'It is, with the {product} in it.'],
      ['I see the {amount} twice on my statement.', 'If it was booked twice, the second one goes back today.'],
      ['Is it safe to try again?', 'Yes. We never take the same order twice, whatever the page says.'],
    ],
  },
  {
    weight: 8,
    tag: 'damage',
    subjects: ['Damaged {product}', 'Something is missing from order {order}', 'Broken on arrival'],
    openings: [
      'The {product} has arrived with a crack in it. Order {order}.',
      'There is a {product} missing from order {order}.',
      'The {product} came in {colour}, and I ordered another colour.',
    ],
    answers: [
      'Oh no, I am sorry! A new {product} goes out today, and you need not send the old one back.',
      'That is our mistake, {visitor}. I have asked {carrier} to bring you the right one.',
      'That must not happen. Would you like another one, or your {amount} back?',
    ],
    exchanges: [
      ['I would rather have the money back.', 'Of course. The {amount} will be with you within five days.'],
      ['What shall I do with the broken one?', 'Keep it for its parts or recycle it; we do not need it back.'],
      ['It is for a birthday on {day}.', 'I have sent it by express. It will be in {city} the day before.'],
    ],
  },
  {
    weight: 7,
    tag: 'change',
    subjects: ['Change of address', 'Change order {order}', 'Cancel order {order}'],
    openings: [
      'I have moved, and order {order} is going to my old address.',
      'Can I still add a {product} to order {order}?',
      'Please cancel order {order}. I have ordered it twice by mistake.',
    ],
    answers: [
      'Just in time: it is not packed yet. I have changed it.',
      'It has left already, I am afraid, but I have asked {carrier} to hand it over in {city}.',
      'Done, {visitor}. You will get a new confirmation in a minute.',
    ],
    exchanges: [
      ['Will it take longer now?', 'By a day at most.'],
      ['Is the new address saved for next time?', 'It is now, under your account.'],
    ],
  },
  {
    weight: 4,
    tag: 'business',
    subjects: ['Prices for larger orders', 'Quote for our office', 'Furniture for a hotel'],
    openings: [
      'We would like to order forty of the {product}. What would be the price?',
      'Do you deliver to companies in {city}, and on account?',
    ],
    answers: [
      'From twenty on it is 18 % less. Shall I write you a quote?',
      'You have found the right one. I look after our business customers.',
    ],
    exchanges: [
      ['A quote would be good, yes.', 'It is in your inbox, valid for 30 days.'],
      ['Could they be in {colour}?', 'From fifty on in any colour. In {colour} we have them anyway.'],
      ['What are the terms of payment?', '30 days net, from the second order on.'],
    ],
  },
];

export const welcomes = [
  'Welcome! Somebody will be with you in a moment.',
  'Thank you for your message. We mostly answer within ten minutes.',
];
export const offers = ['Hello! Can we help you to choose a {product}?', 'There is still a {product} in your cart.'];
export const outreaches = [
  'Hello {visitor}, the {product} from order {order} will be a day late. We are sorry.',
  'Hello {visitor}, {agent} here. The {product} that you asked for is back in stock.',
];
export const connecting = [
  'I have to check that with a colleague.',
  'Let me ask the warehouse.',
  'One moment, please.',
];
export const contactRequests = [
  'Where can we reach you, if we get cut off?',
  'May I have an address, so that I can send you the details?',
];
export const thanks = ['Thank you, {agent}!', 'Perfect, thanks a lot.', 'Great, that helps. Thank you!'];
export const goodbyes = ['You are welcome, {visitor}. Have a good day!', 'Gladly! Enjoy the {product}!', 'Any time.'];
export const secondThoughts = ['Sorry, one more thing after all.', 'I have to come back to this: it is not solved.'];
export const followUps = [
  'Good news, {visitor}: it is all arranged now.',
  'Thanks for your patience. I have seen to it.',
];

/** The facts of a conversation, one of each list. */
export const facts = {
  product: list('two-person tent|wool blanket|enamel mug|rain jacket|oak side table|camping stove|daypack|table lamp'),
  colour: list('olive|navy|sand|charcoal|rust|cream'),
  city: list('Bristol|Galway|Leeds|Hamburg|Utrecht|Malmö|Lyon|Porto|Boston|Melbourne'),
  carrier: list('the courier|the parcel service|the post|the carrier'),
  day: list('Monday|Tuesday|Wednesday|Thursday|Friday|Saturday'),
};

export const shopNames = list('Marlow & Finch|The Copper Pot|Nordlicht Outdoor|Oak Lane Home|Trailhead Supply');
export const firstNames = list(
  'Ada|Amara|Anders|Arjun|Ben|Chloe|Elif|Emeka|Fiona|Grace|Hiro|Ines|Jamal|Jonas|Leila|Lucia|Mei|Niamh|Omar|Priya|Rosa|Samuel|Tomas|Yara|Zoe',
);
export const lastNames = list(
  'Abara|Adler|Almeida|Andersen|Bianchi|Brennan|Chen|Dahl|Diallo|Dubois|Fischer|Garcia|Gupta|Haddad|Ito|Khan|Kowalski|Larsen|Murphy|Novak|Okafor|Patel|Silva|Tanaka|Weber',
);
export const companies = list('Northbay Interiors|Fern & Field|Harbour Coffee|Kestrel Cycles|Riverside Hotel');
export const locales = list('en-GB|en-GB|en-US|en-IE|en-AU|de-DE|nl-NL|sv-SE|fr-FR');
export const pages = list('/|/cart|/checkout|/orders|/returns|/products/tent|/products/mug|/help');

function list(text: string): readonly string[] {
  return text.split('|');
}
