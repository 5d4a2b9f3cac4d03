// Package docker holds what the kinds of fleets on Docker engines share: how an
// engine is reached ([Config], [Engine]), what its errors mean, the use of
// resources by containers ([Sampler]) and what they reserve ([Requests]).
//
// It is no kind of its own. A kind embeds [Config] in its configuration, so that
// the keys are the fleet's, and makes all its calls through an [Engine].
package docker
