import { useEffect, useState } from 'preact/hooks';
import type { Caller, CallerKind } from './caller.ts';

/** Which caller a page has now. */
export function useKind(caller: Caller): CallerKind {
  const [kind, setKind] = useState(caller.kind);
  useEffect(() => {
    setKind(caller.kind);
    return caller.listen(() => setKind(caller.kind));
  }, [caller]);
  return kind;
}

const words: Readonly<Record<Exclude<CallerKind, 'nobody'>, string>> = {
  given: 'Your credential is in the memory of this page alone.',
  console: 'You are signed in to the console.',
};

/** Asks once for what the whole page calls with. */
export function CallerBar({ caller }: { readonly caller: Caller }) {
  const kind = useKind(caller);
  const [failure, setFailure] = useState<string>();
  useEffect(() => {
    if (caller.mayBeSignedIn) caller.useConsole().catch(() => {}); // whose session is over is asked
  }, [caller]);

  if (kind !== 'nobody') {
    return (
      <div class="caller">
        <p role="status">{words[kind]}</p>
        <button type="button" onClick={() => caller.forget()}>
          {kind === 'given' ? 'Forget it' : 'Use another'}
        </button>
      </div>
    );
  }
  return (
    <form
      class="caller"
      onSubmit={(event) => {
        event.preventDefault();
        setFailure(undefined);
        caller.use(String(new FormData(event.currentTarget).get('credential')).trim());
      }}
    >
      <label>
        API key or token
        <input name="credential" type="password" autocomplete="off" required pattern="\s*\S+\s*" />
      </label>
      <button type="submit" class="main">
        Use it
      </button>
      <button
        type="button"
        onClick={() => {
          setFailure(undefined);
          caller.useConsole().catch((error: Error) => setFailure(error.message));
        }}
      >
        Use the console’s session
      </button>
      {failure !== undefined && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
    </form>
  );
}
