import type { Visitor } from '../../domain/conversation-record.ts';
import type { Author } from '../../domain/messages.ts';
import type { Metadata } from '../../domain/metadata.ts';
import { Random } from './random.ts';

// Nobody here is real: the e-mail domains (RFC 2606) and the telephone numbers are reserved for examples and fiction.

const firstNames =
  'Ada Alan Alicia Amara Anders Anika Arjun Astrid Beatriz Ben Brigid Carlos Chiara Chloe Daniel Daria Dmitri Elif Elena Emeka Emma Erik Fatima Felix Fiona Gabriel Grace Hana Hiro Ibrahim Ines Isaac Jamal Jana Jonas Julia Kofi Lars Leila Liam Lucia Maja Marco Mei Mohamed Nadia Niamh Noah Olga Omar Oscar Paula Priya Rafael Rosa Samuel Sofia Tariq Tomas Uma Victor Wei Yara Zoe'.split(
    ' ',
  );
const lastNames =
  'Abara Adler Almeida Andersen Bauer Becker Bianchi Brennan Castillo Chen Costa Dahl Diallo Dubois Eriksen Farouk Fischer Fontaine Garcia Gupta Haas Hansen Haddad Ibarra Ito Jansen Kaur Keller Khan Kim Kowalski Lam Larsen Leroy Lindqvist Lopez Marino Mbeki Meyer Moreau Murphy Nakamura Nguyen Novak Okafor Olsen Park Patel Petrov Quinn Ramos Reyes Rossi Santos Sato Schmidt Silva Singh Sorensen Suzuki Tanaka Weber Yilmaz Zhang'.split(
    ' ',
  );
const mailDomains = ['example.com', 'example.com', 'example.org', 'example.net'];
const companies = [
  'Northbay Interiors',
  'Fern & Field',
  'Harbour Coffee',
  'Studio Tamarind',
  'Blue Kettle Catering',
  'Alder Yoga',
  'Kestrel Cycles',
  'Lumen Architects',
  'Pine Street School',
  'Riverside Hotel',
  'Saltmarsh Camping',
  'Tinker & Sons',
];
const shopNames = [
  'Marlow & Finch',
  'The Copper Pot',
  'Nordlicht Outdoor',
  'Oak Lane Home',
  'Sunday Ceramics',
  'Trailhead Supply',
  'Little Harbour Toys',
  'Juniper Linen',
];
const locales = ['en-GB', 'en-GB', 'en-US', 'en-US', 'en-IE', 'en-AU', 'de-DE', 'nl-NL', 'sv-SE', 'fr-FR'];
const pages = ['/', '/cart', '/checkout', '/orders', '/returns', '/products/tent', '/products/mug', '/gifts', '/help'];

export interface Contact {
  readonly name: string | null;
  readonly email: string | null;
  readonly phone: string | null;
  readonly company: string | null;
}

export function shopName(random: Random): string {
  return random.pick(shopNames);
}

/** The agents of a shop. */
export function teamOf(random: Random): readonly Author[] {
  const from = random.integer(0, firstNames.length - 1);
  return Array.from({ length: 6 }, (_, index) => ({
    id: `agent-${index + 1}`,
    name: `${firstNames[(from + 11 * index) % firstNames.length]} ${random.pick(lastNames)}`,
  }));
}

export const bots: readonly Author[] = [
  { id: 'bot-welcome', name: 'Welcome bot' },
  { id: 'bot-orders', name: 'Order assistant' },
];

/** A visitor of the shop. `visitor` is what the shop knows of them, which may be less than the rest. */
export interface Guest {
  readonly visitor: Visitor | null;
  readonly firstName: string;
  readonly contact: Contact;
  readonly metadata: Metadata;
}

/**
 * The guest with a number: always the same one for the same seed.
 * @param seed the shop's
 */
export function guestOf(seed: number, number: number): Guest {
  const random = new Random(seed ^ 0x67756573, number);
  const [first, last] = [random.pick(firstNames), random.pick(lastNames)];
  const name = `${first} ${last}`;
  const email = `${first}.${last}${number % 97}@${random.pick(mailDomains)}`.toLowerCase();
  const known = random.next();
  const id = `visitor-${number.toString(36).padStart(5, '0')}`;
  return {
    visitor:
      known < 0.7
        ? { id, name, email }
        : known < 0.8
          ? { id, name, email: null }
          : known < 0.93
            ? { id, name: null, email: null }
            : null,
    firstName: first,
    contact: {
      name,
      email: random.chance(0.9) ? email : null,
      phone: null,
      company: random.chance(0.2) ? random.pick(companies) : null,
    },
    metadata: {
      plan: known < 0.25 ? 'member' : known < 0.35 ? 'gold' : 'guest',
      locale: random.pick(locales),
    },
  };
}

/** The contact details that a guest leaves: an e-mail address, a telephone number, or both. */
export function contactOf(random: Random, { contact }: Guest): Contact {
  const phone = contact.email === null || random.chance(0.4) ? exampleNumber(random) : null;
  return { ...contact, phone };
}

function exampleNumber(random: Random): string {
  const last = String(random.integer(0, 99)).padStart(2, '0');
  return random.chance(0.5) ? `+1 212 555 01${last}` : `+44 20 7946 0${random.integer(1, 9)}${last}`;
}

/** What the shop's page reports about a visit. */
export function visitOf(random: Random, { metadata }: Guest): Metadata {
  return {
    ...metadata,
    page: random.pick(pages),
    ...(random.chance(0.6) && { cartValue: Math.round(random.logNormal(4_500, 0.9)) / 100 }),
  };
}
