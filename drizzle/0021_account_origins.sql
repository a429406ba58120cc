CREATE TABLE `account_origins` (
	`account_id` text NOT NULL,
	`origin` text NOT NULL,
	PRIMARY KEY(`account_id`, `origin`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `account_origins_by_origin` ON `account_origins` (`origin`);