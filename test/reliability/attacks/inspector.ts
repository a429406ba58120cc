/** The heap that a process has in use after a collection, asked of its inspector, which listens on loopback only. */
export async function heapAfterCollection(inspectorUrl: string): Promise<number> {
  const socket = new WebSocket(inspectorUrl);
  const answers = new Map<number, (result: unknown) => void>();
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', () => reject(new Error('The inspector does not answer.')));
  });
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    answers.get(id)?.(result);
  });
  socket.addEventListener('close', () => {
    for (const answer of answers.values()) answer({});
  });
  let last = 0;
  const ask = (method: string): Promise<unknown> =>
    new Promise((resolve) => {
      answers.set(++last, resolve);
      socket.send(JSON.stringify({ id: last, method }));
    });
  await ask('HeapProfiler.collectGarbage');
  const { usedSize = 0, backingStorageSize = 0 } = (await ask('Runtime.getHeapUsage')) as Record<string, number>;
  socket.close();
  return usedSize + backingStorageSize;
}
