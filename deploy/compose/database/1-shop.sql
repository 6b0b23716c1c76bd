-- A small shop, so that there is something to see.
CREATE DATABASE shop;
USE shop;
CREATE TABLE customers (
  id BIGINT AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  balance DECIMAL(12,2) NOT NULL DEFAULT 0,
  created DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)
);
CREATE TABLE orders (
  id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  customer BIGINT NOT NULL,
  status ENUM('new', 'paid', 'shipped') NOT NULL DEFAULT 'new',
  total DECIMAL(12,2) NOT NULL
);
INSERT INTO customers (name, balance) VALUES ('Ada', 12.50), ('Grace', 0), ('Łukasz', -3.20);
INSERT INTO orders (customer, total) VALUES (1, 99.90), (2, 5.00);
