CREATE TABLE `rate_clock` (
	`key` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`wall` integer NOT NULL,
	`uptime` integer NOT NULL,
	`boot` text NOT NULL
);
--> statement-breakpoint
-- Until now minutes were those of the machine's clock, and some may still have been to come.
INSERT INTO `rate_clock` (`key`, `at`, `wall`, `uptime`, `boot`)
SELECT 1, max(`minute`) * 60000, max(`minute`) * 60000, 0, '' FROM `rate_windows` HAVING count(*) > 0;
--> statement-breakpoint
ALTER TABLE `rate_windows` DROP COLUMN `added`;
