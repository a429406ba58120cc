import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorState, type Extension, Prec } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { graphql, updateSchema } from 'cm6-graphql';
import type { GraphQLSchema } from 'graphql';
import { useEffect, useRef } from 'preact/hooks';

// A field for code. It lives in a shadow root, where CodeMirror adds its styles in a way that the policy of the page allows.

const theme = EditorView.theme({
  '&': { height: '100%', fontSize: '14px', color: 'var(--text)', backgroundColor: 'var(--background)' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'ui-monospace, monospace', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { color: 'var(--muted)', backgroundColor: 'var(--background)', border: 'none' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 30%, transparent)',
  },
  '.cm-matchingBracket': { backgroundColor: 'var(--raised)', outline: '1px solid var(--border)' },
  // Instead of pictures, which the policy of the page does not allow.
  '.cm-lintRange': { backgroundImage: 'none', textDecoration: 'underline wavy var(--error)' },
  '.cm-lintRange-error, .cm-lintRange-warning, .cm-lintRange-info': { backgroundImage: 'none' },
  '.cm-tooltip': { color: 'var(--text)', backgroundColor: 'var(--raised)', border: '1px solid var(--border)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { color: 'var(--on-accent)', background: 'var(--accent)' },
  '.cm-completionInfo': { maxWidth: '24rem', padding: '.5rem' },
  '.cm-foldPlaceholder': { color: 'var(--text)', backgroundColor: 'var(--raised)', borderColor: 'var(--border)' },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.definitionKeyword, tags.modifier], color: 'var(--series-2)' },
  { tag: [tags.string, tags.number, tags.bool, tags.null], color: 'var(--good)' },
  { tag: [tags.variableName, tags.attributeName], color: 'var(--warn)' },
  { tag: [tags.propertyName], color: 'var(--accent)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
]);

const common: Extension = [
  lineNumbers(),
  foldGutter(),
  history(),
  closeBrackets(),
  bracketMatching(),
  autocompletion(),
  syntaxHighlighting(colours),
  theme,
  keymap.of([
    ...closeBracketsKeymap,
    ...defaultKeymap,
    ...historyKeymap,
    ...foldKeymap,
    ...completionKeymap,
    indentWithTab,
  ]),
];

/** What an editor is to show from now on, whatever has been typed: a new object each time. */
export interface Given {
  readonly text: string;
}

interface EditorProps {
  readonly label: string;
  readonly language: 'graphql' | 'json';
  readonly given: Given;
  /** With what the text and the cursor are, whenever they change; without it the text can only be read. */
  readonly onChange?: (text: string, cursor: number) => void;
  /** For Ctrl and Enter. */
  readonly onRun?: () => void;
  /** Of the documents, once it is known. */
  readonly schema?: GraphQLSchema | undefined;
}

export function Editor({ label, language, given, onChange, onRun, schema }: EditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const told = useRef({ onChange, onRun });
  told.current = { onChange, onRun };

  useEffect(() => {
    if (!place.current) return;
    const root = place.current.shadowRoot ?? place.current.attachShadow({ mode: 'open' });
    const run = (): boolean => {
      told.current.onRun?.();
      return true;
    };
    const made = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: given.text,
        extensions: [
          Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
          common,
          language === 'json' ? json() : graphql(),
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          onChange === undefined ? [EditorState.readOnly.of(true), EditorView.lineWrapping] : [],
          EditorView.updateListener.of(({ state, docChanged, selectionSet }) => {
            if (docChanged || selectionSet) told.current.onChange?.(state.doc.toString(), state.selection.main.head);
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [label, language]);

  useEffect(() => {
    const { current } = view;
    if (current === undefined || current.state.doc.toString() === given.text) return;
    current.dispatch({ changes: { from: 0, to: current.state.doc.length, insert: given.text } });
  }, [given]);

  useEffect(() => {
    if (view.current && language === 'graphql' && schema) updateSchema(view.current, schema);
  }, [schema, language]);

  return <div ref={place} class="editor" />;
}
