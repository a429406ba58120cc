import { type Line, lines } from './lines.ts';

// What visitors write to a shop, and what its agents and bots answer.

export interface Topic {
  /** How often it comes up, relative to the others. */
  readonly weight: number;
  readonly subjects: readonly Line[];
  /** The visitor's request. */
  readonly openings: readonly Line[];
  /** The agent's first answer. */
  readonly answers: readonly Line[];
  /** Possible follow-ups: a question of the visitor and the agent's answer. */
  readonly exchanges: readonly (readonly [asked: Line, answered: Line])[];
}

function exchanges(...pairs: readonly (readonly [string, string])[]): Topic['exchanges'] {
  return pairs.map((pair) => lines(...pair) as unknown as readonly [Line, Line]);
}

export const topics: readonly Topic[] = [
  {
    weight: 24,
    subjects: lines('Where is my order {order}?', 'Order {order}', 'Delivery of order {order}', 'Parcel not here yet'),
    openings: lines(
      'where is my order {order}? It was meant to be here on {day}.',
      'I ordered a {product} and have heard nothing since. The order is {order}.',
      'the tracking for order {order} has not moved for three days.',
      'has order {order} left your warehouse yet?',
      'my parcel should have come on {day}. Could you look where it is? Order {order}.',
    ),
    answers: lines(
      'Let me look that up. Order {order} left us on {day} and is with {carrier} now.',
      'Thanks for the number, {visitor}. {order} is on its way and should be in {city} by tomorrow.',
      'I am sorry about the wait. {carrier} had a delay in {city}; it is moving again.',
      'I have found it: the {product} was packed this morning and goes out today.',
    ),
    exchanges: exchanges(
      ['Do I have to be at home for it?', 'No, a neighbour can take it, or it goes to the nearest pick-up point.'],
      [
        'Can you send me the tracking link again?',
        'Of course, it is in your inbox now. It can take an hour to show anything.',
      ],
      ['Could it still come before {day}?', 'It is likely, but I would rather not promise what {carrier} has to keep.'],
      [
        'The tracking says that it was delivered, and there is nothing here.',
        'That should not be. I have opened an enquiry with {carrier}; they answer within two days.',
      ],
      [
        'What if it does not turn up?',
        'Then we send the {product} again, or you get your {amount} back. You choose which.',
      ],
      ['Why was it sent in two parcels?', 'The {product} lies in another warehouse. You pay for one delivery only.'],
    ),
  },
  {
    weight: 17,
    subjects: lines('Return of {product}', 'Sending back order {order}', 'How do I return this?', 'Refund for {order}'),
    openings: lines(
      'I would like to send back the {product} from order {order}.',
      'how do I return something? The {product} is not quite what I had in mind.',
      'I sent the {product} back two weeks ago and have not got the {amount} yet.',
      'is it still possible to return order {order}?',
    ),
    answers: lines(
      'No problem at all. You have 30 days, and the label is free. I have just sent it to you.',
      'Of course, {visitor}. Put the label that I have mailed you on the box and hand it to {carrier}.',
      'I can see the return of {order}. The {amount} went back to your card on {day}.',
      'Happily. May I ask what was wrong with the {product}?',
    ),
    exchanges: exchanges(
      ['I no longer have the box that it came in.', 'Any sturdy box will do, as long as nothing can rattle about.'],
      [
        'How long does the refund take?',
        'Two working days once it is here, and then whatever your bank takes, mostly three more.',
      ],
      [
        'Could I have another colour instead?',
        'Yes, we have it in {colour}. I can send that as soon as the first one is on its way.',
      ],
      ['Does it have to be unused?', 'You may try it as you would in a shop. A night in the woods is a little more.'],
      ['Can I bring it to the shop in {city}?', 'Yes, with the order number {order} they will take it right there.'],
      [
        'I paid with a gift card. What happens to that?',
        'The {amount} goes back to the same card, and it stays valid for three years.',
      ],
    ),
  },
  {
    weight: 13,
    subjects: lines('Which size of {product}?', 'Question about the {product}', 'Is the {product} in stock?'),
    openings: lines(
      'I cannot decide between two sizes of the {product}. Does it run small?',
      'is the {product} in {colour} going to be back in stock?',
      'how heavy is the {product}? I cannot find it on the page.',
      'does the {product} come in {size}?',
      'what is the {product} made of, and can it be washed?',
    ),
    answers: lines(
      'Good question! Most people take their usual size, and one larger for winter.',
      'We expect the {product} in {colour} again on {day}. Shall I put one aside for you?',
      'I have just been to the shelf with a scale, {visitor}: it is lighter than it looks.',
      'In {size} we have three left here, and one in our shop in {city}.',
    ),
    exchanges: exchanges(
      [
        'And how does it hold up in the rain?',
        'Very well. It has been on my own balcony since last autumn, and it still looks new.',
      ],
      [
        'Do you have a photo of the {colour} one in daylight?',
        'I have just taken one at the window. The {colour} is a bit warmer than on the page.',
      ],
      ['Where is it made?', 'In a family workshop near {city}. We have worked with them for eleven years.'],
      ['Does it come with a warranty?', 'Five years, and we repair it for longer than that.'],
      ['Would you recommend it as a present?', 'It is what I gave my brother. We can wrap it, too.'],
      ['How does it compare with the older model?', 'It is a little larger, and the seams are double now.'],
      ['Is there a cheaper one like it?', 'There is, from {amount}. It does the same and weighs more.'],
    ),
  },
  {
    weight: 9,
    subjects: lines('Payment does not go through', 'Charged twice?', 'Problem at checkout'),
    openings: lines(
      'my card is refused at the checkout, and the bank says that all is well.',
      'I think that I was charged twice for order {order}.',
      'the checkout shows an error when I press pay. I have tried three times.',
      'can I pay by invoice?',
    ),
    answers: lines(
      'Sorry about that! One of the two is only reserved and goes away by itself within three days.',
      'Thank you for telling us. There was trouble with card payments this morning; could you try once more?',
      'I see the attempt over {amount}. Your bank wanted a confirmation in its app and did not get one.',
      'Yes, by invoice is possible from the second order on. I have switched it on for you.',
    ),
    exchanges: exchanges(
      ['It works now, thank you. Is my cart still there?', 'It is, with the {product} in it.'],
      [
        'I see the {amount} twice on my statement.',
        'I have asked our bookkeeping. If it was booked twice, the second one goes back today.',
      ],
      ['Is it safe to try again?', 'Yes. We never take the same order twice, whatever the page says.'],
      ['Do you take vouchers from last year?', 'All vouchers are good for three years from the day on them.'],
    ),
  },
  {
    weight: 8,
    subjects: lines('Damaged {product}', 'Something is missing from order {order}', 'Broken on arrival'),
    openings: lines(
      'the {product} has arrived with a crack in it. Order {order}.',
      'there is a {product} missing from order {order}.',
      'the {product} came in {colour}, and I ordered another colour.',
      'the parcel was wet, and so is the {product}.',
    ),
    answers: lines(
      'Oh no, I am sorry! A new {product} goes out today, and you need not send the old one back.',
      'That is our mistake, {visitor}. I have ordered {carrier} to bring you the right one.',
      'I am sorry to hear that. Could you send us a photo? It helps us with {carrier}.',
      'That must not happen. Would you like another one, or your {amount} back?',
    ),
    exchanges: exchanges(
      ['The photo is on its way to you.', 'I have it, thank you. That is clear enough.'],
      ['I would rather have the money back.', 'Of course. The {amount} will be with you within five days.'],
      ['What shall I do with the broken one?', 'Keep it for its parts or recycle it; we do not need it back.'],
      [
        'It is for a birthday on {day}. Will it be here in time?',
        'I have sent it by express. It will be in {city} the day before.',
      ],
      [
        'This is the second time that this has happened.',
        'You are right to be cross. I have taken 15 % off the order.',
      ],
    ),
  },
  {
    weight: 7,
    subjects: lines('Change of address', 'Change order {order}', 'Cancel order {order}'),
    openings: lines(
      'I have moved, and order {order} is going to my old address.',
      'can I still add a {product} to order {order}?',
      'please cancel order {order}. I have ordered it twice by mistake.',
      'I have picked the wrong size in order {order}. Can it be {size}?',
    ),
    answers: lines(
      'Just in time: it is not packed yet. I have changed it.',
      'It has left already, I am afraid, but I have asked {carrier} to hand it over in {city}.',
      'Done, {visitor}. You will get a new confirmation in a minute.',
      'Order {order} is cancelled, and nothing will be taken from your card.',
    ),
    exchanges: exchanges(
      ['Will it take longer now?', 'By a day at most.'],
      ['Is the new address saved for next time?', 'It is now, under your account.'],
      ['Can you leave the rest as it is?', 'Yes, I have touched nothing else.'],
    ),
  },
  {
    weight: 7,
    subjects: lines('Discount code', 'Code does not work', 'Newsletter voucher'),
    openings: lines(
      'the code from your newsletter does not work.',
      'is there a discount for students?',
      'I forgot to enter my code with order {order}. Can you add it afterwards?',
    ),
    answers: lines(
      'It is for orders above {amount}, and the text could be clearer about that. I have sent you one without a limit.',
      'There is: ten percent, with a school address. I have mailed you how it goes.',
      'Of course. The difference goes back to your card today.',
    ),
    exchanges: exchanges(
      ['Can I use it together with the sale?', 'Not with the sale, but with everything else.'],
      ['How long is it valid?', 'Until the end of the month.'],
      ['Does it work for the {product}, too?', 'It does, I have just tried it.'],
    ),
  },
  {
    weight: 6,
    subjects: lines('Cannot sign in', 'My account', 'Password reset'),
    openings: lines(
      'I cannot sign in any more, and no mail comes when I ask for a new password.',
      'how do I change the address of my account?',
      'please delete my account and all that you have of me.',
    ),
    answers: lines(
      'The mail may lie with the junk. I have sent it once more just now.',
      'That goes under "My details", and I can do it for you as well.',
      'I have passed it on. It takes two days, and you get a last mail when it is done.',
    ),
    exchanges: exchanges(
      ['Found it, it was with the junk.', 'Good! Put us on your list and it will not happen again.'],
      ['It says that the link has expired.', 'They hold for an hour. Here is a fresh one.'],
      ['Are my old orders still there?', 'All of them, back to the first one.'],
    ),
  },
  {
    weight: 5,
    subjects: lines('Invoice for order {order}', 'VAT on my invoice', 'Copy of an invoice'),
    openings: lines(
      'I need the invoice for order {order} with our company on it.',
      'could I have last year’s invoices again?',
      'the VAT number is missing on the invoice for {order}.',
    ),
    answers: lines(
      'Here it comes, with the new name on it. The old one is void.',
      'I have mailed you all of them in one file.',
      'Thank you for telling us. Which number shall it be?',
    ),
    exchanges: exchanges(
      ['Can that be the same for all orders from now on?', 'I have noted it in your account.'],
      ['Our bookkeeping needs it by {day}.', 'You have it within the hour.'],
    ),
  },
  {
    weight: 4,
    subjects: lines('Prices for larger orders', 'Quote for our office', '{product} for a hotel'),
    openings: lines(
      'we would like to order forty of the {product}. What would be the price?',
      'do you deliver to companies in {city}, and on account?',
      'we are furnishing an office and are looking for someone to talk to.',
    ),
    answers: lines(
      'From twenty on it is 18 % less. Shall I write you a quote?',
      'Gladly! How many are you thinking of, and by when?',
      'You have found the right one. I look after our business customers.',
    ),
    exchanges: exchanges(
      ['A quote would be good, yes.', 'It is in your inbox, valid for 30 days.'],
      ['Could they be in {colour}?', 'From fifty on in any colour. In {colour} we have them anyway.'],
      ['Can we see a sample first?', 'Of course, one goes out to {city} today.'],
      ['What are the terms of payment?', '30 days net, from the second order on.'],
    ),
  },
];

/** Follow-ups that fit any topic. */
export const anyExchanges = exchanges(
  ['Sorry, could you say that again?', 'Of course: all is arranged, and there is nothing that you have to do.'],
  ['How long are you open today?', 'Until ten at night, and from seven tomorrow.'],
  ['One moment, I have to look for the number.', 'Take your time, {visitor}.'],
  ['It is {order}.', 'Thank you, that is the one.'],
  ['Could you send me that by mail as well?', 'It is on its way.'],
  ['Are you a person or a bot?', 'A person! {agent}, in {city}, with a cup of tea.'],
  ['And delivery is free from which amount?', 'From {amount} on.'],
  ['Do you have a shop that I can visit?', 'Two of them: one is in {city}.'],
);

export const greetings = ['', '', '', 'Hi, ', 'Hi, ', 'Hello, ', 'Hello! ', 'Good morning, ', 'Hey, ', 'Hi there, '];

export const botWelcomes = lines(
  'Welcome! Somebody will be with you in a moment.',
  'Thank you for your message. We mostly answer within ten minutes.',
  'Hello {visitor}! While you wait: orders can be followed under "My orders".',
);

export const botOffers = lines(
  'Hello! Can we help you to choose a {product}?',
  'There is still a {product} in your cart. Is there anything that you would like to know?',
);

export const outreaches = lines(
  'Hello {visitor}, the {product} from order {order} will be a day late. We are sorry, and {carrier} is too.',
  'Hello {visitor}, {agent} here. The {product} that you asked for is back in stock.',
  'Hello {visitor}, one thing about order {order}: {carrier} cannot find the house number. Could you tell me?',
);

export const nudges = lines('Are you still there?', 'Hello?', 'No hurry, I just wanted to ask again.', 'Any news?');

export const connecting = lines(
  'Let me ask the warehouse. I shall be back in a moment.',
  'I have to check that with a colleague.',
  'One moment, please.',
);

export const contactRequests = lines(
  'Where can we reach you, if we get cut off?',
  'May I have an address, so that I can send you the details?',
);

export const thanks = lines(
  'Thank you, {agent}!',
  'Perfect, thanks a lot.',
  'Great, that helps. Thank you!',
  'All clear, thanks.',
  'Thank you, have a good day!',
  'Brilliant. Thanks for the quick answer.',
);

export const goodbyes = lines(
  'You are welcome, {visitor}. Have a good day!',
  'Gladly! Write to us whenever something comes up.',
  'With pleasure. Enjoy the {product}!',
  'Any time. Goodbye!',
);

export const secondThoughts = lines(
  'Sorry, one more thing after all.',
  'I have to come back to this: it still is not solved.',
  'It is me again. Something else has come up.',
);

export const followUps = lines(
  'Hello {visitor}, I wanted to ask whether all is well with order {order} now.',
  'Good news, {visitor}: {carrier} has found the parcel after all.',
);
