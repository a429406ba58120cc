import { Chat } from './chat.ts';
import { type Place, placeOf } from './place.ts';
import { textsOf } from './texts.ts';
import { type Shown, View } from './view.ts';

/** A page that was hidden for so long ends its connection. The browser has few of them for all its tabs together. */
const hiddenMs = 30_000;

/** Where this script came from. */
const ownService = new URL('.', import.meta.url).href;

/** `<conversation-widget token-url="/chat-token">`: a chat with the agents, for the visitor of the page. */
export class ConversationWidget extends HTMLElement {
  static readonly observedAttributes = ['service', 'token-url'];

  #end: (() => void) | undefined;
  #view: View | undefined;

  connectedCallback(): void {
    if (this.#end === undefined) this.#beginAnew();
    else this.#view?.showEnd(); // what was moved is at its beginning
  }

  disconnectedCallback(): void {
    // A page that only moves it loses nothing of what is typed or not sent yet.
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#end?.();
      this.#end = undefined;
    });
  }

  attributeChangedCallback(): void {
    if (this.#end !== undefined) this.#beginAnew(); // else it is not in a page yet
  }

  #beginAnew(): void {
    this.#end?.();
    this.#end = this.#begin();
  }

  /** @returns what ends everything that has begun */
  #begin(): () => void {
    const root = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    const service = (this.getAttribute('service') ?? ownService).replace(/\/+$/, '');
    const place = placeOf(service);
    const before: Place = place.read();
    let shown: Shown = { isOpen: before.isOpen, isListing: false };

    const chat = new Chat({
      service,
      tokenUrl: this.getAttribute('token-url'),
      conversationId: before.conversationId,
      onChange: () => {
        place.write({ isOpen: shown.isOpen, conversationId: chat.conversationId });
        render();
      },
      onOtherVisitor: () => {
        place.write({ isOpen: shown.isOpen });
        this.#beginAnew();
      },
    });
    const change = (next: Partial<Shown>): void => {
      shown = { ...shown, ...next };
      place.write({ isOpen: shown.isOpen, conversationId: chat.conversationId });
      render();
      view.focus(shown);
    };
    const view = new View(root, textsOf(this), {
      toggle: () => {
        if (!shown.isOpen) void chat.openUnread();
        change({ isOpen: !shown.isOpen });
      },
      toggleList: () => change({ isListing: !shown.isListing }),
      open: (id) => {
        void chat.open(id);
        change({ isListing: false });
      },
      begin: () => {
        chat.begin();
        change({ isListing: false });
      },
      write: (content) => {
        chat.write(content);
        if (shown.isListing) change({ isListing: false });
      },
      retry: (draft) => chat.retry(draft),
      discard: (draft) => chat.discard(draft),
      reconnect: () => chat.reconnect(),
      readOlder: () => void chat.readOlder(),
      readEarlier: () => void chat.readEarlier(),
      scrolled: () => markSeen(),
    });
    this.#view = view;
    function render(): void {
      view.render(chat, shown);
      markSeen();
    }
    function markSeen(): void {
      const isSeen = shown.isOpen && !shown.isListing && document.visibilityState === 'visible' && view.isAtEnd;
      if (isSeen) void chat.markSeen();
    }

    let hiding: ReturnType<typeof setTimeout> | undefined;
    const look = (): void => {
      clearTimeout(hiding);
      if (document.visibilityState === 'hidden') hiding = setTimeout(() => chat.stop(), hiddenMs);
      else chat.start();
      markSeen();
    };
    // What a browser keeps of a page that is left must hold nothing that other pages wait for.
    const leave = (): void => chat.stop();
    document.addEventListener('visibilitychange', look);
    addEventListener('pagehide', leave);
    addEventListener('pageshow', look);
    render();
    look();
    return () => {
      document.removeEventListener('visibilitychange', look);
      removeEventListener('pagehide', leave);
      removeEventListener('pageshow', look);
      clearTimeout(hiding);
      chat.end();
    };
  }
}
