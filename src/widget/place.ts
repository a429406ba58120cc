/** Where a visitor is in the widget. */
export interface Place {
  readonly isOpen: boolean;
  readonly conversationId?: string | undefined;
}

const nowhere: Place = { isOpen: false };

/** The place of a tab, which outlives a reload. Without storage, which browsers can refuse, each page begins anew. */
export function placeOf(service: string): { read(): Place; write(place: Place): void } {
  const key = `conversation-widget ${service}`;
  return {
    read() {
      try {
        const { isOpen, conversationId } = JSON.parse(sessionStorage.getItem(key) ?? '{}');
        return {
          isOpen: isOpen === true,
          conversationId: typeof conversationId === 'string' ? conversationId : undefined,
        };
      } catch {
        return nowhere;
      }
    },
    write(place) {
      try {
        sessionStorage.setItem(key, JSON.stringify(place));
      } catch {
        // It is kept for as long as the page is shown.
      }
    },
  };
}
