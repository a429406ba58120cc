DROP INDEX `conversations_by_assignee`;--> statement-breakpoint
CREATE INDEX `conversations_by_assignee` ON `conversations` (`account_id`,`assignee_id`,`status`,`id`);