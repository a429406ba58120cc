DROP INDEX `leads_by_conversation`;--> statement-breakpoint
ALTER TABLE `leads` ADD `comparable_email` text GENERATED ALWAYS AS (lower(email)) VIRTUAL;--> statement-breakpoint
CREATE INDEX `leads_by_email` ON `leads` (`account_id`,`comparable_email`,`id`) WHERE "leads"."comparable_email" is not null;--> statement-breakpoint
CREATE INDEX `leads_by_conversation` ON `leads` (`account_id`,`conversation_id`,`id`) WHERE "leads"."conversation_id" is not null;--> statement-breakpoint
ALTER TABLE `conversations` ADD `visitor_id` text GENERATED ALWAYS AS (visitor ->> 'id') VIRTUAL;--> statement-breakpoint
ALTER TABLE `conversations` ADD `visitor_email` text GENERATED ALWAYS AS (lower(visitor ->> 'email')) VIRTUAL;--> statement-breakpoint
ALTER TABLE `conversations` ADD `assignee_id` text GENERATED ALWAYS AS (assignee ->> 'id') VIRTUAL;--> statement-breakpoint
CREATE INDEX `conversations_by_visitor` ON `conversations` (`account_id`,`visitor_id`,`id`) WHERE "conversations"."visitor_id" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_visitor_email` ON `conversations` (`account_id`,`visitor_email`,`id`) WHERE "conversations"."visitor_email" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_assignee` ON `conversations` (`account_id`,`assignee_id`,`status`,`id`) WHERE "conversations"."assignee_id" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_assignee_and_activity` ON `conversations` (`account_id`,`assignee_id`,`status`,`last_activity_at`,`id`) WHERE "conversations"."assignee_id" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_update` ON `conversations` (`account_id`,`updated_at`,`last_activity_at`) WHERE "conversations"."updated_at" > "conversations"."last_activity_at";