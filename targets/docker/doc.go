// Package docker contains the common parts of the fleet kinds for Docker engines: the connection
// ([Config], [Engine]), the classification of its errors, the resource usage of containers
// ([Sampler]) and their resource requests ([Requests]).
//
// A fleet's configuration embeds [Config], and the fleet makes all its calls through an
// [Engine].
package docker
