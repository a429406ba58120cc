import * as z from 'zod';
import { timeShape } from './time.ts';

// Fields of responses, each with an example for the documentation.

export const textShape = (description: string, example: string) =>
  z
    .string()
    .describe(description)
    .meta({ examples: [example] });

export const nullableText = (description: string, example: string | null) =>
  z
    .string()
    .nullable()
    .describe(description)
    .meta({ examples: [example] });

export const countShape = (description: string, example: number, least = 0) =>
  z
    .int()
    .min(least)
    .describe(description)
    .meta({ examples: [example] });

export const nullableTime = (description: string) =>
  timeShape
    .nullable()
    .describe(description)
    .meta({ examples: [null] });
