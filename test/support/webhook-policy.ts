/** Lets webhooks be sent to receivers on this machine, over plain HTTP. */
export const anywhere = { allowHttp: true, allowPrivate: true };
