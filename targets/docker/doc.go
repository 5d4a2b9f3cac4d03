// Package docker contains the common parts of the fleets on Docker engines: the connection
// ([Config], [Engine]), the classes of its errors, the resource usage of containers ([Sampler])
// and their requests ([Requests]).
//
// A fleet's configuration embeds [Config], and the fleet makes all its calls through an [Engine].
package docker
