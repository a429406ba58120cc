/**
 * The page of the console: everything in it is made by its script.
 * @param addressOf the addresses of its script and its styles
 */
export const consolePage = (addressOf: (name: string) => string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conversations</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${addressOf('console.css')}">
<script type="module" src="${addressOf('console.js')}"></script>
</head>
<body><div id="console"></div><noscript>The console needs JavaScript.</noscript></body>
</html>
`;
