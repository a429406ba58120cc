-- Written by hand: the key that tokens are signed with, 256 bits in hexadecimal.
INSERT INTO `meta` (`name`, `value`) VALUES ('token_key', lower(hex(randomblob(32))));
