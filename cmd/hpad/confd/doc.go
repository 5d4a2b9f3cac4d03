// Package confd changes the files of a configuration for people who would rather
// not open an editor: it adds a file, takes one away, and cuts the tables of an
// autoscaler out of one that holds more. A reader, and a crash, find a file as it
// was or as it is to be.
package confd
