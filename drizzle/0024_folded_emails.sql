-- Written by hand but for the columns: drizzle does not move the indexes out of the way, nor fill the columns.
DROP INDEX `conversations_by_visitor_email`;--> statement-breakpoint
ALTER TABLE `conversations` DROP COLUMN `visitor_email`;--> statement-breakpoint
ALTER TABLE `conversations` ADD `folded_visitor_email` text;--> statement-breakpoint
ALTER TABLE `conversations` ADD `visitor_email` text GENERATED ALWAYS AS (coalesce(folded_visitor_email, lower(visitor ->> 'email'))) VIRTUAL;--> statement-breakpoint
UPDATE `conversations` SET `folded_visitor_email` = folded_email(`visitor` ->> 'email')
WHERE octet_length(`visitor` ->> 'email') > length(`visitor` ->> 'email');--> statement-breakpoint
CREATE INDEX `conversations_by_visitor_email` ON `conversations` (`account_id`,`visitor_email`,`id`) WHERE "conversations"."visitor_email" is not null;--> statement-breakpoint
DROP INDEX `leads_by_email`;--> statement-breakpoint
ALTER TABLE `leads` DROP COLUMN `comparable_email`;--> statement-breakpoint
ALTER TABLE `leads` ADD `folded_email` text;--> statement-breakpoint
ALTER TABLE `leads` ADD `comparable_email` text GENERATED ALWAYS AS (coalesce(folded_email, lower(email))) VIRTUAL;--> statement-breakpoint
UPDATE `leads` SET `folded_email` = folded_email(`email`) WHERE octet_length(`email`) > length(`email`);--> statement-breakpoint
CREATE INDEX `leads_by_email` ON `leads` (`account_id`,`comparable_email`,`id`) WHERE "leads"."comparable_email" is not null;
