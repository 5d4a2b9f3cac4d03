package awsasg

import (
	"context"
	"maps"
	"slices"
	"strings"

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

// Facts implements cloud.Platform.
func (f *Fleet) Facts(ctx context.Context, unknown map[string]cloud.Unknown[*group]) (map[string]*cloud.Found, error) {
	if !aws.ToBool(f.config.DescribeInstances) {
		return nil, nil
	}
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, of := range unknown {
		ids = slices.AppendSeq(ids, maps.Keys(of.Members))
	}
	slices.Sort(ids)
	found := map[string]*cloud.Found{}
	for chunk := range slices.Chunk(ids[:min(len(ids), instancesPerCall*lookupsPerRound)], instancesPerCall) {
		if err := f.lookUp(ctx, session, chunk, found); err != nil && (ctx.Err() == nil || len(found) == 0) {
			return found, err
		} else if err != nil {
			break // there is no time for more in this round
		}
	}
	return found, nil
}

// lookUp finds instances by a filter, which leaves out instances that EC2 does not know
// yet instead of failing.
func (f *Fleet) lookUp(ctx context.Context, s *session, ids []string, found map[string]*cloud.Found) error {
	pages := ec2.NewDescribeInstancesPaginator(s.instances, &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String("instance-id"), Values: ids}},
	}, func(o *ec2.DescribeInstancesPaginatorOptions) { o.StopOnDuplicateToken = true })
	for read := 0; pages.HasMorePages() && read < pagesPerCall; read++ {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return f.connection.called(ctx, s, err)
		}
		for _, reservation := range page.Reservations {
			for _, instance := range reservation.Instances {
				found[aws.ToString(instance.InstanceId)] = foundOf(&instance)
			}
		}
	}
	return nil
}

// foundOf returns the facts in an instance's description. Its name is the private
// DNS name: the tag "Name" is mostly the same for a whole group.
func foundOf(i *types.Instance) *cloud.Found {
	d := &cloud.Found{Launched: aws.ToTime(i.LaunchTime)}
	d.Facts.Name = aws.ToString(i.PrivateDnsName)
	host, _, _ := strings.Cut(d.Facts.Name, ".")
	for _, address := range []string{
		aws.ToString(i.PrivateIpAddress), d.Facts.Name, host,
		aws.ToString(i.PublicIpAddress), aws.ToString(i.PublicDnsName), aws.ToString(i.Ipv6Address),
	} {
		if address != "" && !slices.Contains(d.Facts.Addresses, address) {
			d.Facts.Addresses = append(d.Facts.Addresses, address)
		}
	}
	for _, tag := range i.Tags {
		if key := aws.ToString(tag.Key); !strings.HasPrefix(key, awsTags) {
			if d.Facts.Labels == nil {
				d.Facts.Labels = map[string]string{}
			}
			d.Facts.Labels[key] = aws.ToString(tag.Value)
		}
	}
	return d
}
