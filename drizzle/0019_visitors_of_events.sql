ALTER TABLE `events` ADD `visitor_hash` text;--> statement-breakpoint
CREATE INDEX `events_by_visitor` ON `events` (`account_id`,`visitor_hash`,`sequence`) WHERE "events"."visitor_hash" is not null;