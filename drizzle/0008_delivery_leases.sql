CREATE TABLE `delivery_leases` (
	`delivery_key` integer PRIMARY KEY NOT NULL,
	`lease` text NOT NULL,
	`ends_at` integer NOT NULL,
	FOREIGN KEY (`delivery_key`) REFERENCES `deliveries`(`key`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
ALTER TABLE `deliveries` DROP COLUMN `lease`;