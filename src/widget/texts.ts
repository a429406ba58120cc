/** What the widget says. An attribute of the element, such as `text-title`, says it otherwise. */
const english = {
  title: 'Chat',
  open: 'Open chat',
  close: 'Close chat',
  unread: 'Unread messages',
  messages: 'Messages',
  conversations: 'Conversations',
  new: 'New conversation',
  older: 'Show older messages',
  earlier: 'Show earlier conversations',
  message: 'Your message',
  send: 'Send',
  sending: 'Sending…',
  failed: 'Not sent.',
  retry: 'Try again',
  edit: 'Edit',
  discard: 'Discard',
  closed: 'This conversation is closed. Write a message to start a new one.',
  connecting: 'Connecting…',
  unavailable: 'The chat is not available right now.',
  you: 'You',
  agent: 'Support',
  bot: 'Assistant',
} as const;

export type Texts = (name: keyof typeof english) => string;

export const textsOf =
  (element: Element): Texts =>
  (name) =>
    element.getAttribute(`text-${name}`) ?? english[name];
