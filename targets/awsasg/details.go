package awsasg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/hpad/hpad/targets/cloud"
)

// How instances are looked up: so many in a call, and at most so many calls in a round;
// a large fleet that is new to hpad takes some rounds.
const (
	instancesPerCall = 100
	lookupsPerRound  = 20
	// awsTags begins the tags that AWS itself sets.
	awsTags = "aws:"
)

// detail is what EC2 knows of an instance.
type detail struct {
	launched time.Time
	facts    cloud.Facts
}

// look asks EC2 for the instances in service that nothing is known of yet.
func (f *Fleet) look(ctx context.Context, s *session, described map[string]found) map[string]*detail {
	learned := map[string]*detail{}
	if !aws.ToBool(f.config.DescribeInstances) {
		return learned
	}
	f.details.Try(f.config.CheckInterval, func() (struct{}, error) {
		calls := 0
		for chunk := range slices.Chunk(f.unknown(described), instancesPerCall) {
			if calls == lookupsPerRound || ctx.Err() != nil {
				break
			}
			calls++
			found, err := f.lookUp(ctx, s, chunk)
			if err != nil && ctx.Err() != nil && len(learned) > 0 {
				break // there is no time for more in this round
			}
			if err != nil {
				return struct{}{}, err
			}
			maps.Copy(learned, found)
		}
		return struct{}{}, nil
	})
	return learned
}

// unknown returns the instances in service that were not looked up yet, and forgets
// those that start anew from the warm pool.
func (f *Fleet) unknown(described map[string]found) []string {
	var ids []string
	for _, one := range described {
		if one.group == nil {
			continue
		}
		for _, instance := range one.group.Instances {
			id, stage := aws.ToString(instance.InstanceId), stageOf(instance.LifecycleState)
			known, ok := f.memory.Recall(id)
			switch {
			case stage.outside && strings.HasPrefix(string(instance.LifecycleState), "Warmed"):
				if ok {
					f.memory.Forget(id)
				}
			case stage.serving && known.Facts == nil:
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// lookUp asks for instances by a filter, which leaves out those that EC2 does not know
// yet instead of failing.
func (f *Fleet) lookUp(ctx context.Context, s *session, ids []string) (map[string]*detail, error) {
	found := make(map[string]*detail, len(ids))
	pages := ec2.NewDescribeInstancesPaginator(s.instances, &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String("instance-id"), Values: ids}},
	}, func(o *ec2.DescribeInstancesPaginatorOptions) { o.StopOnDuplicateToken = true })
	for read := 0; pages.HasMorePages() && read < pagesPerCall; read++ {
		page, err := pages.NextPage(ctx)
		if err != nil {
			f.heed(s, err)
			return nil, fmt.Errorf("describe instances (ec2:DescribeInstances): %w", readError(err))
		}
		for _, reservation := range page.Reservations {
			for _, instance := range reservation.Instances {
				found[aws.ToString(instance.InstanceId)] = detailOf(&instance)
			}
		}
	}
	return found, nil
}

// detailOf returns what an instance's description means. Its name is the private
// DNS name: the tag "Name" is mostly the same for a whole group.
func detailOf(i *types.Instance) *detail {
	d := &detail{launched: aws.ToTime(i.LaunchTime)}
	d.facts.Name = aws.ToString(i.PrivateDnsName)
	host, _, _ := strings.Cut(d.facts.Name, ".")
	for _, address := range []string{
		aws.ToString(i.PrivateIpAddress), d.facts.Name, host,
		aws.ToString(i.PublicIpAddress), aws.ToString(i.PublicDnsName), aws.ToString(i.Ipv6Address),
	} {
		if address != "" && !slices.Contains(d.facts.Addresses, address) {
			d.facts.Addresses = append(d.facts.Addresses, address)
		}
	}
	for _, tag := range i.Tags {
		if key := aws.ToString(tag.Key); !strings.HasPrefix(key, awsTags) {
			if d.facts.Labels == nil {
				d.facts.Labels = map[string]string{}
			}
			d.facts.Labels[key] = aws.ToString(tag.Value)
		}
	}
	return d
}
