import { ConversationWidget } from './element.ts';

// A page may load the script from two addresses, such as two versions of it: the first defines the element.
if (customElements.get('conversation-widget') === undefined) {
  customElements.define('conversation-widget', ConversationWidget);
}
