import type { Chat, Draft, Message, Row } from './chat.ts';
import { icon, make } from './dom.ts';
import { styles } from './styles.ts';
import type { Texts } from './texts.ts';

/** What the visitor does. */
interface Actions {
  toggle(): void;
  toggleList(): void;
  open(id: string): void;
  begin(): void;
  write(content: string): void;
  retry(draft: Draft): void;
  discard(draft: Draft): void;
  reconnect(): void;
  readOlder(): void;
  readEarlier(): void;
  scrolled(): void;
}

export interface Shown {
  readonly isOpen: boolean;
  /** Whether the list of conversations is shown instead of messages. */
  readonly isListing: boolean;
}

/** So near to an end of the log counts as there. */
const nearPixels = 40;
/** The service takes no longer messages. */
const maxLength = 16_384;

const speechBubble = 'M4 5h16v11H9l-5 4z';
const cross = 'M6 6l12 12M18 6L6 18';
const lines = 'M5 7h14M5 12h14M5 17h14';

/** The elements of the widget, in its shadow root. */
export class View {
  readonly #root: ShadowRoot;
  readonly #texts: Texts;
  readonly #actions: Actions;
  readonly #launcher: HTMLButtonElement;
  readonly #badge = make('span', { part: 'badge', class: 'badge', role: 'status' });
  readonly #panel: HTMLElement;
  readonly #listButton: HTMLButtonElement;
  readonly #log: HTMLElement;
  readonly #older: HTMLButtonElement;
  readonly #welcome = make('slot', { name: 'welcome' });
  readonly #messages = make('ol', {});
  readonly #list: HTMLElement;
  readonly #rows = make('ul', {});
  readonly #earlier: HTMLButtonElement;
  readonly #notice = make('p', { part: 'notice', class: 'notice', role: 'status' });
  readonly #retry: HTMLButtonElement;
  readonly #field: HTMLTextAreaElement;
  readonly #send: HTMLButtonElement;
  readonly #items = new Map<string, HTMLLIElement>();
  /** The conversation in the log, and its first message there. */
  #inLog = '';
  #isOpen = false;

  constructor(root: ShadowRoot, texts: Texts, actions: Actions) {
    this.#root = root;
    this.#texts = texts;
    this.#actions = actions;
    this.#launcher = button('launcher', {}, actions.toggle, make('slot', { name: 'icon' }, icon(speechBubble)));
    this.#launcher.setAttribute('aria-haspopup', 'dialog');
    this.#listButton = button('button', { 'aria-label': texts('conversations') }, actions.toggleList, icon(lines));
    const close = button('button', { 'aria-label': texts('close') }, actions.toggle, icon(cross));
    const title = make('span', { part: 'title', class: 'title', id: 'title' }, texts('title'));
    const header = make('div', { part: 'header', class: 'header' }, this.#listButton, title, close);

    this.#older = button('older', {}, actions.readOlder, texts('older'));
    const log = { part: 'log', class: 'log', role: 'log', tabindex: '0', 'aria-label': texts('messages') };
    this.#log = make('div', log, this.#older, this.#welcome, this.#messages);
    this.#log.addEventListener('scroll', () => {
      if (this.#log.scrollTop < nearPixels && !this.#older.hidden) actions.readOlder();
      actions.scrolled();
    });

    const begin = button('begin', {}, actions.begin, texts('new'));
    this.#earlier = button('older', {}, actions.readEarlier, texts('earlier'));
    this.#list = make('div', { part: 'list', class: 'list' }, begin, this.#rows, this.#earlier);
    this.#retry = button('retry', {}, actions.reconnect, texts('retry'));

    const field = { part: 'field', rows: '1', maxlength: `${maxLength}`, 'aria-label': texts('message') };
    this.#field = make('textarea', { ...field, placeholder: texts('message') });
    this.#send = make('button', { part: 'send', class: 'send' }, texts('send'));
    const form = make('form', { part: 'form', class: 'form' }, this.#field, this.#send);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#field.addEventListener('keydown', (event) => {
      // Enter also ends the composition of a character.
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });

    const panel = { part: 'panel', class: 'panel', role: 'dialog', id: 'panel', 'aria-labelledby': 'title' };
    this.#panel = make('div', panel, header, this.#log, this.#list, this.#notice, this.#retry, form);
    this.#launcher.setAttribute('aria-controls', 'panel');
    const all = make('section', { 'aria-label': texts('title') }, this.#panel, this.#launcher, this.#badge);
    all.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || this.#panel.hidden || event.isComposing) return;
      event.stopPropagation();
      actions.toggle();
    });
    root.adoptedStyleSheets = [styles()];
    root.replaceChildren(all);
  }

  /** Whether the last message can be seen. */
  get isAtEnd(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.#log;
    return scrollHeight - scrollTop - clientHeight < nearPixels;
  }

  showEnd(): void {
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  /** Moves the focus to where the visitor goes on. */
  focus(shown: Shown): void {
    if (!shown.isOpen) this.#launcher.focus();
    else if (shown.isListing) (this.#rows.querySelector('button') ?? this.#listButton).focus();
    else this.#field.focus();
  }

  render(chat: Chat, { isOpen, isListing }: Shown): void {
    const focused = this.#root.activeElement;
    const unread = chat.unread();
    const count = `${this.#texts('unread')}: ${unread}`;
    const name = this.#texts(isOpen ? 'close' : 'open');
    this.#launcher.setAttribute('aria-label', unread === 0 ? name : `${name}. ${count}`);
    this.#launcher.setAttribute('aria-expanded', `${isOpen}`);
    this.#badge.setAttribute('aria-label', unread === 0 ? '' : count);
    say(this.#badge, unread === 0 ? '' : unread > 99 ? '99+' : `${unread}`);
    this.#panel.hidden = !isOpen;
    this.#listButton.hidden = chat.rows.length === 0;
    this.#listButton.setAttribute('aria-expanded', `${isListing}`);
    this.#list.hidden = !isListing;
    this.#log.hidden = isListing;
    const isUnavailable = chat.state === 'unavailable';
    this.#retry.hidden = !isUnavailable;
    this.#send.disabled = isUnavailable;
    say(this.#notice, this.#noticeOf(chat, isListing));
    if (isListing) this.#renderRows(chat);
    this.#renderLog(chat, isOpen && !isListing);
    // Perhaps what had the focus is gone.
    const now = this.#root.activeElement as HTMLElement | null;
    if (focused && now?.hidden !== false) (isListing ? this.#listButton : this.#log).focus();
  }

  #noticeOf(chat: Chat, isListing: boolean): string {
    if (chat.state === 'unavailable') return this.#texts('unavailable');
    if (!chat.isLoaded) return this.#texts('connecting');
    return chat.isClosed && !isListing ? this.#texts('closed') : '';
  }

  #renderRows(chat: Chat): void {
    const focused = this.#list.querySelector<HTMLElement>('button:focus')?.dataset['id'];
    const rows = chat.rows.map((row) => this.#row(row, chat));
    this.#rows.replaceChildren(...rows);
    this.#earlier.hidden = !chat.hasEarlier;
    if (focused !== undefined) this.#rows.querySelector<HTMLElement>(`[data-id="${focused}"]`)?.focus();
  }

  #row(row: Row, chat: Chat): HTMLLIElement {
    const unread = chat.unread(row);
    const count = make('span', { class: 'count' }, `${unread}`);
    count.prepend(make('span', { class: 'name' }, `${this.#texts('unread')}: `));
    count.hidden = unread === 0;
    const subject = make('span', { class: 'subject' }, make('bdi', {}, row.title));
    const isCurrent = row.id === chat.conversationId;
    const open = (): void => this.#actions.open(row.id);
    const attributes = { 'data-id': row.id, ...(isCurrent && { 'aria-current': 'true' }) };
    const time = make('time', { class: 'meta', datetime: row.lastActivityAt }, timeOf(row.lastActivityAt));
    const failed = make('span', { class: 'meta failed' }, this.#texts('failed'));
    failed.hidden = !chat.hasFailed(row);
    return make('li', {}, button('conversation', attributes, open, subject, failed, count, time));
  }

  #renderLog(chat: Chat, isShown: boolean): void {
    const { messages, drafts } = chat;
    const log = this.#log;
    const inLog = `${chat.conversationId} ${chat.isLoaded}`;
    const first = messages[0]?.key;
    const isOther = inLog !== this.#inLog || (isShown && !this.#isOpen);
    const isLonger = !isOther && first !== undefined && !this.#items.has(first) && this.#items.size > 0;
    const wasAtEnd = this.isAtEnd || drafts.some(({ key }) => !this.#items.has(key));
    const fromEnd = log.scrollHeight - log.scrollTop;
    // What was there before is not read out; what arrives is.
    if (isOther || isLonger) {
      log.setAttribute('aria-live', 'off');
      requestAnimationFrame(() => log.setAttribute('aria-live', 'polite'));
    }

    this.#older.hidden = !chat.hasOlder;
    this.#welcome.hidden = messages.length + drafts.length > 0;
    const wanted = [
      ...messages.map((message): [string, HTMLLIElement] => [message.key, this.#message(message)]),
      ...drafts.map((draft): [string, HTMLLIElement] => [draft.key, this.#draft(draft)]),
    ];
    const keys = new Set(wanted.map(([key]) => key));
    for (const [key, item] of this.#items) {
      if (keys.has(key)) continue;
      item.remove();
      this.#items.delete(key);
    }
    wanted.forEach(([, item], at) => {
      if (this.#messages.children[at] !== item) this.#messages.insertBefore(item, this.#messages.children[at] ?? null);
    });

    if (isLonger && !wasAtEnd) log.scrollTop = log.scrollHeight - fromEnd;
    else if (isOther || wasAtEnd) this.showEnd();
    this.#inLog = inLog;
    this.#isOpen = isShown;
  }

  #message({ key, sender, content, author, createdAt }: Message): HTMLLIElement {
    const name = author?.name ?? this.#texts(sender === 'visitor' ? 'you' : sender);
    const item = this.#item(key, sender, name, content);
    const time = make('time', { datetime: createdAt }, timeOf(createdAt));
    this.#meta(item, 'sent', () => (sender === 'visitor' ? [time] : [make('bdi', {}, name), ' · ', time]));
    return item;
  }

  #draft(draft: Draft): HTMLLIElement {
    const item = this.#item(draft.key, 'visitor', this.#texts('you'), draft.content);
    if (draft.hasFailed) {
      const choice = (name: 'retry' | 'edit' | 'discard', choose: () => void): HTMLElement => {
        const chosen = (): void => {
          this.#field.focus(); // the button will be gone
          choose();
        };
        return button(`${name}-message`, {}, chosen, this.#texts(name));
      };
      const edit = (): void => {
        this.#field.value = [draft.content, this.#field.value].filter(Boolean).join('\n');
        this.#actions.discard(draft);
      };
      this.#meta(item, 'failed', () => [
        this.#texts('failed'),
        choice('retry', () => this.#actions.retry(draft)),
        choice('edit', edit),
        choice('discard', () => this.#actions.discard(draft)),
      ]);
    } else {
      this.#meta(item, 'sending', () => [this.#texts('sending')]);
    }
    return item;
  }

  /** The item of a key, which is made once. */
  #item(key: string, sender: Message['sender'], name: string, content: string): HTMLLIElement {
    const known = this.#items.get(key);
    if (known !== undefined) return known;
    const text = make('p', { part: 'text', class: 'text' }, make('span', { class: 'name' }, `${name}: `), content);
    const meta = make('div', { part: 'meta', class: 'meta' });
    const item = make('li', { part: `message message-${sender}`, class: `message ${sender}` }, text, meta);
    this.#items.set(key, item);
    return item;
  }

  /** Says below an item how it stands with it, when that has changed. */
  #meta(item: HTMLLIElement, state: string, content: () => readonly (Node | string)[]): void {
    if (item.dataset['state'] === state) return;
    item.dataset['state'] = state;
    const meta = item.querySelector('.meta');
    meta?.classList.toggle('failed', state === 'failed');
    meta?.replaceChildren(...content());
  }

  #submit(): void {
    const content = this.#field.value;
    if (content.trim() === '' || this.#send.disabled) return;
    this.#field.value = '';
    this.#field.focus();
    this.#actions.write(content);
  }
}

function button(
  name: string,
  attributes: Readonly<Record<string, string>>,
  onClick: () => void,
  ...children: readonly (Node | string)[]
): HTMLButtonElement {
  const element = make('button', { type: 'button', part: name, class: name, ...attributes }, ...children);
  element.addEventListener('click', ({ detail }) => {
    if (detail < 2) onClick(); // a double click does not take back what it has done
  });
  return element;
}

/** Puts a text where it is not yet: a live region is read out when it changes. */
function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** The time of today, or the day. */
function timeOf(at: string): string {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString([], { timeStyle: 'short' }) : date.toLocaleDateString();
}
