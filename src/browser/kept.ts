// What the browser keeps for a page. Who refuses cookies refuses this with them: then a page has nothing of before.

type Where = 'localStorage' | 'sessionStorage';

export function kept(where: Where, item: string): string | null {
  try {
    return window[where].getItem(item);
  } catch {
    return null;
  }
}

export function keep(where: Where, item: string, value: string): void {
  try {
    window[where].setItem(item, value);
  } catch {
    // It is there for as long as the page is shown.
  }
}
