CREATE TABLE `rate_clock` (
	`key` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`wall` integer NOT NULL,
	`uptime` integer NOT NULL,
	`boot` text NOT NULL
);
--> statement-breakpoint
-- What was counted while the machine's clock was ahead counts from now on: the limiter's clock begins with it as it is.
INSERT INTO `rate_windows` (`account_id`, `minute`, `count`)
SELECT `account_id`, unixepoch() / 60, sum(`count`) FROM `rate_windows`
WHERE `minute` > unixepoch() / 60 AND `count` > 0 GROUP BY `account_id`
ON CONFLICT DO UPDATE SET `count` = `count` + excluded.`count`;
--> statement-breakpoint
DELETE FROM `rate_windows` WHERE `minute` > unixepoch() / 60;
--> statement-breakpoint
INSERT INTO `rate_clock` (`key`, `at`, `wall`, `uptime`, `boot`)
SELECT 1, unixepoch() * 1000, unixepoch() * 1000, 0, '' WHERE EXISTS (SELECT 1 FROM `rate_windows`);
