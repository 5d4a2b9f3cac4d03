package nomad

import (
	"bytes"
	"context"
	"hash/maphash"

	"github.com/go-json-experiment/json/jsontext"
)

// stamp is what moves when something happens to a job. It is compared and not ordered:
// a cluster that was restored from a backup goes back.
type stamp struct {
	// created, modified and specified are the indexes of the job, the last one of its
	// specification; summary is that of how many allocations it has in which state.
	created, modified, specified, summary uint64
}

// jobStub is what is needed of a job in a list.
type jobStub struct {
	stamp
	// submitted is when it was submitted, in nanoseconds.
	submitted int64
	stopped   bool
	// queued is how many allocations wait for a place, by group; nil for none.
	queued map[string]int
}

// jobReader reads jobs in a list, one after the other into the same memory: there may
// be a hundred thousand, few of which moved.
type jobReader struct {
	*jsontext.Decoder
	// id and namespace are valid until the next job, group until the next group.
	id, namespace, group []byte
	stub                 jobStub
	// present counts the allocations of all jobs that were read.
	present int
}

// next reads one job.
func (r *jobReader) next() error {
	r.id, r.namespace, r.stub = r.id[:0], r.namespace[:0], jobStub{}
	return eachMember(r.Decoder, func(name []byte) (err error) {
		switch string(name) {
		case "ID":
			r.id, err = appendText(r.id, r.Decoder)
		case "Namespace":
			r.namespace, err = appendText(r.namespace, r.Decoder)
		case "Stop":
			r.stub.stopped, err = r.isTrue()
		case "CreateIndex":
			r.stub.created, err = number(r.Decoder)
		case "ModifyIndex":
			r.stub.modified, err = number(r.Decoder)
		case "JobModifyIndex":
			r.stub.specified, err = number(r.Decoder)
		case "SubmitTime":
			var at uint64
			at, err = number(r.Decoder)
			r.stub.submitted = int64(at)
		case "JobSummary":
			err = eachMember(r.Decoder, r.summary)
		default:
			err = r.SkipValue()
		}
		return err
	})
}

func (r *jobReader) isTrue() (bool, error) {
	token, err := r.ReadToken()
	return err == nil && token.Kind() == 't', err
}

// summary reads a member of a job's summary.
func (r *jobReader) summary(name []byte) (err error) {
	switch string(name) {
	case "ModifyIndex":
		r.stub.summary, err = number(r.Decoder)
	case "Summary":
		err = eachMember(r.Decoder, func(group []byte) error {
			r.group = append(r.group[:0], group...)
			return eachMember(r.Decoder, r.count)
		})
	default:
		err = r.SkipValue()
	}
	return err
}

// count reads how many allocations of a group are in a state.
func (r *jobReader) count(state []byte) error {
	switch string(state) {
	case "Queued":
		n, err := number(r.Decoder)
		if n > 0 {
			if r.stub.queued == nil {
				r.stub.queued = map[string]int{}
			}
			r.stub.queued[string(r.group)] = int(n)
		}
		return err
	case "Starting", "Running", "Unknown":
		n, err := number(r.Decoder)
		r.present += int(n)
		return err
	}
	return r.SkipValue()
}

// readJobs reads the list of jobs of a filter, each by a function, which is to copy the
// texts that it keeps.
func (s *session) readJobs(ctx context.Context, at scope, filter string, take func(job *jobReader)) (reply, error) {
	r := new(jobReader)
	return s.stream(ctx, at, "/v1/jobs", nil, filter, func(decoder *jsontext.Decoder) error {
		r.Decoder = decoder
		err := r.next()
		if err == nil {
			take(r)
		}
		return err
	})
}

// listedJob is a job in a list as it was read last.
type listedJob struct {
	// hash is that of its text: as long as it stays, so does all that is read from it.
	hash uint64
	// number is its place in the roster; negative where it is not in use.
	number int32
	// present is how many allocations it has.
	present int32
	jobStub
}

// textSeed makes the hashes of jobs' texts such that nobody can have two be the same.
var textSeed = maphash.MakeSeed()

// ahead is how many jobs a relisting looks over that are gone or are not as they were. With
// more of them in a row the rest of the list is decoded.
const ahead = 64

// relisting reads a list of jobs of a roster once more, and decodes those that changed. All
// lists have them in the same order.
type relisting struct {
	roster *roster
	before []listedJob
	// jobs are those that were read.
	jobs   []listedJob
	reader jobReader
	buffer bytes.Buffer
}

func (r *roster) relist() *relisting {
	l := &relisting{roster: r}
	if before := r.listed.Load(); before != nil {
		l.before = *before
	}
	l.jobs = make([]listedJob, 0, len(l.before)+ahead)
	l.reader.Decoder = new(jsontext.Decoder)
	return l
}

// next reads one job. The result is valid until the next one.
func (l *relisting) next(d *jsontext.Decoder) (*listedJob, error) {
	text, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	hash := maphash.Bytes(textSeed, text)
	if l.skip(func(job *listedJob) bool { return job.hash == hash }) {
		l.jobs = append(l.jobs, l.before[0])
		l.before = l.before[1:]
		return &l.jobs[len(l.jobs)-1], nil
	}
	reader := &l.reader
	l.buffer = *bytes.NewBuffer(text)
	reader.Reset(&l.buffer, lenient...)
	reader.present = 0
	if err := reader.next(); err != nil {
		return nil, err
	}
	job := listedJob{hash: hash, number: -1, present: int32(reader.present), jobStub: reader.stub}
	if number, inUse := l.roster.numbers[string(reader.id)]; inUse {
		job.number = int32(number)
		if l.skip(func(before *listedJob) bool { return before.number == job.number }) {
			l.before = l.before[1:]
		}
	}
	l.jobs = append(l.jobs, job)
	return &l.jobs[len(l.jobs)-1], nil
}

// skip goes on to the next job for which is is true; false where that is too far.
func (l *relisting) skip(is func(*listedJob) bool) bool {
	for i := range l.before[:min(ahead, len(l.before))] {
		if is(&l.before[i]) {
			l.before = l.before[i:]
			return true
		}
	}
	return false
}

// end keeps what was read for the next list, and what was not where that was cut off.
func (l *relisting) end(err error) {
	if err != nil {
		l.jobs = append(l.jobs, l.before...)
	}
	l.roster.listed.Store(&l.jobs)
}
