// Package aws tries hpad on an imitation of AWS, beside second clients and servers
// that were made by others.
package aws
