package daemon

import (
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
)

// offProblems are what keeps autoscalers from being scaled although nothing fails.
func (d *Daemon) offProblems(g *generation) []api.Problem {
	var problems []api.Problem
	if d.options.DryRun {
		problems = append(problems, api.Problem{Subject: "daemon", Message: api.DryRun})
	}
	for _, name := range g.names {
		if g.autoscalers[name].published.Load().status.Disabled() {
			problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: api.Disabled})
		}
	}
	return problems
}

// reportOff logs that an autoscaler is off once it begins, and once in each run, and
// that it is on again.
func (d *Daemon) reportOff(a *autoscaler, def *definition, before, after *publication) {
	was, is := before.status.Disabled(), after.status.Disabled()
	fields := []zap.Field{zap.String("autoscaler", a.name), zap.Stringer("target", def.Target)}
	switch {
	case is && (!was || !before.decided()):
		d.log.Warn("autoscaling is off", append(fields, zap.String("reason", after.decision.Message))...)
	case was && !is:
		d.log.Info("autoscaling is on again", fields...)
	}
}
