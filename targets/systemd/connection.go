package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/hpad/hpad/targets"
)

// The default sockets of managers and buses.
const (
	systemSocket  = "/run/systemd/private"
	systemBus     = "unix:path=/run/dbus/system_bus_socket"
	privateSocket = "/systemd/private"
)

// connection is a D-Bus connection to a manager. The first call connects; after the connection
// is lost, the next call connects again. It is safe for concurrent use.
type connection struct {
	config *Config
	ctx    context.Context
	cancel context.CancelFunc
	// current contains the session or nil. After taking it out, a caller must put it back.
	current chan *session
}

type session struct {
	*systemd.Conn
	end context.CancelFunc
	// run identifies the manager's run; see runOf.
	run string
}

func (s *session) close() {
	s.Close()
	s.end()
}

func newConnection(config *Config) *connection {
	c := &connection{config: config, current: make(chan *session, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.current <- nil
	return c
}

func (c *connection) close() {
	c.cancel()
	if s := <-c.current; s != nil {
		s.close()
	}
	c.current <- nil
}

// session returns a working session.
func (c *connection) session(ctx context.Context) (*session, error) {
	var s *session
	select {
	case s = <-c.current:
	case <-ctx.Done():
		return nil, classify(ctx.Err())
	}
	if s != nil && s.Connected() {
		c.current <- s
		return s, nil
	}
	if s != nil {
		s.close()
	}
	s, err := c.dial(ctx)
	c.current <- s
	return s, err
}

// dial connects to the manager and determines its run.
func (c *connection) dial(ctx context.Context) (*session, error) {
	address := addressOf(c.config)
	fail := func(err error) (*session, error) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("connect to the %s manager at %q: %w%s", c.config.Manager, address, classify(err), connectHint(c.config, err))
	}
	if err := c.ctx.Err(); err != nil {
		return fail(err)
	}
	life, end := context.WithCancel(c.ctx)
	// The end of ctx must close the connection only while it is being established.
	connected := context.AfterFunc(ctx, end)
	var first *godbus.Conn
	conn, err := systemd.NewConnection(func() (*godbus.Conn, error) {
		bus, err := dialBus(life, address)
		if first == nil {
			first = bus
		}
		return bus, err
	})
	if err != nil {
		end()
		return fail(err)
	}
	run, err := runOf(ctx, first)
	if !connected() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		end()
		return fail(err)
	}
	return &session{Conn: conn, end: end, run: run}, nil
}

// dialBus connects to a bus or directly to a manager, which does not expect a Hello.
func dialBus(life context.Context, address string) (*godbus.Conn, error) {
	bus, err := godbus.Dial(address, godbus.WithContext(life))
	if err != nil {
		return nil, err
	}
	// Use the numeric ID, because a name would require a lookup.
	err = bus.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && !strings.HasSuffix(address, privateSocket) {
		err = bus.Hello()
	}
	if err != nil {
		_ = bus.Close()
		return nil, err
	}
	return bus, nil
}

// runOf identifies the manager's run by its start time, which a daemon-reexec does not change.
func runOf(ctx context.Context, bus *godbus.Conn) (string, error) {
	object := bus.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	var parts []string
	// Each of these clocks alone could be equal in two boots.
	for _, name := range []string{"UserspaceTimestamp", "UserspaceTimestampMonotonic"} {
		var began godbus.Variant
		err := object.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, "org.freedesktop.systemd1.Manager", name).Store(&began)
		if err != nil {
			return "", err
		}
		parts = append(parts, fmt.Sprint(began.Value()))
	}
	return strings.Join(parts, "-"), nil
}

// addressOf returns the D-Bus address of a manager. The default is the manager's own socket if hpad
// may use it (only root may use the system manager's socket), otherwise the bus.
func addressOf(c *Config) string {
	switch {
	case filepath.IsAbs(c.Address):
		return "unix:path=" + c.Address
	case c.Address != "":
		return c.Address
	case c.Manager == userManager:
		runtime := runtimeDir()
		if exists(runtime + privateSocket) {
			return "unix:path=" + runtime + privateSocket
		}
		return cmp.Or(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "unix:path="+runtime+"/bus")
	case os.Geteuid() == 0 && exists(systemSocket):
		return "unix:path=" + systemSocket
	}
	return cmp.Or(os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"), systemBus)
}

// runtimeDir returns the directory that contains the sockets of the user's manager.
func runtimeDir() string {
	return cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", os.Getuid()))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// connectHint returns a remedy for a failed connection, or "" for other errors.
func connectHint(c *Config, err error) string {
	switch {
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission):
		return ""
	case c.Address != "":
		return "; check the fleet's address"
	case c.Manager == userManager:
		return "; hpad's user needs its own manager (loginctl enable-linger) and XDG_RUNTIME_DIR"
	}
	return "; this host must run systemd and, unless hpad runs as root, the D-Bus daemon"
}

// call makes a call with the fleet's timeout.
func (c *connection) call(ctx context.Context, what string, call func(context.Context, *session) error) error {
	limited, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	s, err := c.session(limited)
	if err == nil {
		err = classify(call(limited, s))
		if errors.Is(err, errLost) && limited.Err() == nil {
			s.close() // the next call connects again
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
	}
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return targets.WithClass(targets.ErrTransient, fmt.Errorf("%w from the manager within %v (timeout)", errLost, c.config.Timeout))
	}
	return err
}

// read makes a read-only call. If the connection is lost, for example because of a
// daemon-reexec, it retries once.
func read[T any](ctx context.Context, c *connection, what string, call func(context.Context, *session) (T, error)) (found T, err error) {
	once := func(ctx context.Context, s *session) (err error) {
		found, err = call(ctx, s)
		return err
	}
	err = c.call(ctx, what, once)
	if errors.Is(err, errLost) && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && c.ctx.Err() == nil {
		err = c.call(ctx, what, once)
	}
	return found, err
}

func (c *connection) list(ctx context.Context, patterns []string) (listing, error) {
	return read(ctx, c, "list units", func(ctx context.Context, s *session) (listing, error) {
		units, err := s.ListUnitsByPatternsContext(ctx, nil, patterns)
		return listing{units: units, run: s.run}, err
	})
}

func (c *connection) files(ctx context.Context, patterns []string) ([]systemd.UnitFile, error) {
	return read(ctx, c, "list unit files", func(ctx context.Context, s *session) ([]systemd.UnitFile, error) {
		return s.ListUnitFilesByPatternsContext(ctx, nil, patterns)
	})
}

func (c *connection) properties(ctx context.Context, unit string) (map[string]any, error) {
	return read(ctx, c, "read unit "+unit, func(ctx context.Context, s *session) (map[string]any, error) {
		return s.GetAllPropertiesContext(ctx, unit)
	})
}

func (c *connection) property(ctx context.Context, unit, name string) (any, error) {
	return read(ctx, c, "read "+name+" of unit "+unit, func(ctx context.Context, s *session) (any, error) {
		get := s.GetServicePropertyContext
		if name == invocationID {
			get = s.GetUnitPropertyContext
		}
		found, err := get(ctx, unit, name)
		if err != nil {
			return nil, err
		}
		return found.Value.Value(), nil
	})
}

// replaceMode is the job mode in which a new job replaces an earlier job of the unit.
const replaceMode = "replace"

func (c *connection) start(ctx context.Context, unit string) error {
	return c.call(ctx, "start "+unit, func(ctx context.Context, s *session) error {
		_, err := s.StartUnitContext(ctx, unit, replaceMode, nil)
		return refusalOf(err, unit)
	})
}

func (c *connection) stop(ctx context.Context, unit string) error {
	return c.call(ctx, "stop "+unit, func(ctx context.Context, s *session) error {
		_, err := s.StopUnitContext(ctx, unit, replaceMode, nil)
		return err
	})
}

// checkPermission checks the permission to start and stop a unit by calling both with an invalid
// mode: a stop with "isolate" and a start with "triggering". The manager queries polkit for the
// unit and the operation before it rejects the mode. Before version 246, systemd rejects
// "triggering" immediately, so only the stop is checked. hpad cannot query polkit itself, because
// only root can pass the unit's name.
func (c *connection) checkPermission(ctx context.Context, unit string) error {
	err := c.call(ctx, "check the permission to stop "+unit, func(ctx context.Context, s *session) error {
		_, err := s.StopUnitContext(ctx, unit, "isolate", nil)
		return ignoreInvalidMode(err)
	})
	if err != nil {
		return err
	}
	return c.call(ctx, "check the permission to start "+unit, func(ctx context.Context, s *session) error {
		_, err := s.StartUnitContext(ctx, unit, "triggering", nil)
		return ignoreInvalidMode(err)
	})
}

func (c *connection) reset(ctx context.Context, unit string) error {
	return c.call(ctx, "reset "+unit, func(ctx context.Context, s *session) error {
		return s.ResetFailedUnitContext(ctx, unit)
	})
}
