import { render } from 'preact';
import { App } from './app.tsx';
import './base.css';
import './styles.css';

const root = document.getElementById('console');
if (root) render(<App />, root);
