ALTER TABLE `conversations` ADD `assignee` text;--> statement-breakpoint
ALTER TABLE `conversations` ADD `tags` text DEFAULT '[]' NOT NULL;