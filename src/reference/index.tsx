import { render } from 'preact';
import { Caller } from '../browser/caller.ts';
import { CallerBar } from '../browser/caller-bar.tsx';
import { service } from '../console/session.ts';
import type { OpenApiDocument } from '../rest/openapi/types.ts';
import { describe } from './requests.ts';
import { TryIt } from './try-it.tsx';
import '../console/base.css';
import '../browser/styles.css';
import './styles.css';

// What the page of `/docs` can do beyond being read: filter, copy, and try.

const caller = new Caller();
const callerPlace = document.getElementById('caller');
if (callerPlace) render(<CallerBar caller={caller} />, callerPlace);

addFilter();
const written = document.querySelector<HTMLElement>('script[data-service]')?.dataset['service'] ?? '';
for (const sample of document.querySelectorAll('.sample')) addCopying(sample);
for (const section of document.querySelectorAll('.operation')) addTrying(section);

/** Above the list of operations, a field that leaves those which match. */
function addFilter(): void {
  const nav = document.querySelector('nav');
  const label = element('label', 'Find an operation');
  const input = element('input');
  input.type = 'search';
  label.append(input);
  nav?.prepend(label);
  const found = element('p');
  found.className = 'unseen';
  found.role = 'status';
  label.after(found);
  input.addEventListener('input', () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let count = 0;
    for (const item of document.querySelectorAll<HTMLElement>('nav li')) {
      const described = document.querySelectorAll(`${item.querySelector('a')?.hash} :is(h3, h3 + p)`);
      const text = [item, ...described]
        .map(({ textContent }) => textContent)
        .join(' ')
        .toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
      if (!item.hidden) count++;
    }
    for (const group of document.querySelectorAll<HTMLElement>('nav section')) {
      group.hidden = group.querySelector('li:not([hidden])') === null;
    }
    found.textContent = `${count} found`;
  });
}

/** Samples have the address at which the page was opened, and a button that copies them. */
function addCopying(sample: Element): void {
  const code = sample.querySelector('code');
  if (!code) return;
  code.textContent = code.textContent.replaceAll(written, service);
  const name = `${sample.querySelector('summary')?.textContent} sample of ${sample.closest('section')?.id}`;
  const button = element('button');
  button.type = 'button';
  const say = (word: string): void => {
    button.textContent = word;
    button.ariaLabel = `${word}: ${name}`;
  };
  say('Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say('Copied');
      setTimeout(() => say('Copy'), 2_000);
    } catch {
      getSelection()?.selectAllChildren(code); // over http, a page of another machine has no clipboard
    }
  });
  sample.append(button);
}

/** A button that opens the form, once the document is there from which it is made. */
function addTrying(section: Element): void {
  const place = element('div');
  const button = element('button', 'Try it');
  button.type = 'button';
  button.className = 'main';
  button.ariaLabel = `Try it: ${section.id}`;
  place.append(button);
  section.querySelector('aside')?.append(place);
  button.addEventListener('click', () => {
    openApi().then(
      (document) => {
        const operation = describe(document, section.id);
        if (!operation) return;
        button.remove();
        render(<TryIt operation={operation} caller={caller} service={service} />, place);
        place.querySelector<HTMLElement>('input, summary, textarea, button')?.focus();
      },
      () => {
        button.textContent = 'The service cannot be reached: try again';
      },
    );
  });
}

let asked: Promise<OpenApiDocument> | undefined;

function openApi(): Promise<OpenApiDocument> {
  asked ??= fetch(`${service}/openapi.json`)
    .then((response) => {
      if (!response.ok) throw new Error(`The document is answered with ${response.status}.`);
      return response.json();
    })
    .catch((error: unknown) => {
      asked = undefined;
      throw error;
    });
  return asked;
}

function element<Name extends keyof HTMLElementTagNameMap>(name: Name, text = ''): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
