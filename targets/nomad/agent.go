package nomad

import "github.com/hashicorp/nomad/api"

// Agent is a connection to an agent for what is no fleet. It is safe for concurrent use.
type Agent struct{ connection *connection }

// NewAgent returns an Agent, which connects when it is first asked. Of the configuration
// it takes how the agent is reached and who hpad is.
func NewAgent(c *Config) (*Agent, error) {
	made, err := newConnection(c)
	return &Agent{made}, err
}

// Client returns a client and an ACL token for the next call, both made from the files as
// they are now; without a token it is "".
func (a *Agent) Client() (*api.Client, string, error) {
	s, err := a.connection.session()
	if err != nil {
		return nil, "", err
	}
	return s.client, s.token, nil
}

// Close closes idle connections.
func (a *Agent) Close() { a.connection.Close() }
