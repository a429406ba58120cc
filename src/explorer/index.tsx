import { render } from 'preact';
import { Caller } from '../browser/caller.ts';
import { App } from './app.tsx';
import '../console/base.css';
import '../browser/styles.css';
import './styles.css';

const root = document.getElementById('explorer');
if (root) render(<App caller={new Caller()} />, root);
