// Package show lays out what the daemon shows of autoscalers for a terminal, as kubectl
// does where it has the like.
package show
